"""Each link agrees with the address in pyproject.toml, and `make links` writes them all."""

import json
import re
import shutil
from urllib.parse import parse_qs, unquote, urlsplit

import links
import pytest
from course import NOTEBOOKS, ROOT

HOLDERS = ["pyproject.toml", "CITATION.cff", "README.md", "docs/hub.md"]
HOLDERS += [path.relative_to(ROOT).as_posix() for path in NOTEBOOKS]
HOLDERS += ["docs/question_bank.ipynb"]


@pytest.fixture
def copy(tmp_path):
    """The files that know the address, in a folder of their own."""
    for name in HOLDERS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def released(copy):
    """The same after `make links REPO=owner/name TAG=v1.2`."""
    links.main(["owner/name", "v1.2"], copy)
    return copy


def state(folder):
    return {name: (folder / name).read_text(encoding="utf-8") for name in HOLDERS}


def astray(folder):
    """The files that say another address than pyproject.toml."""
    said = links.texts(folder, links.address(folder))
    return [path.name for path, text in said.items() if links.read(path) != text]


def test_every_link_of_this_course_agrees():
    assert astray(ROOT) == [], "run `make links`"


def test_written_links_agree_and_written_again_change_nothing(released):
    before = state(released)
    assert astray(released) == []
    links.main([], released)
    links.main(["owner/name", "v1.2"], released)
    assert state(released) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("README.md", "blob/v1.2", "blob/main"),
        ("README.md", "gh/owner/name", "gh/owner/other"),
        ("docs/hub.md", "class-v1.2", "main"),
        ("CITATION.cff", 'version: "1.2"', 'version: "1.1"'),
        ("CITATION.cff", "github.com/owner/name", "github.com/owner/other"),
        ("notebooks/03_precision_and_dtype.ipynb", "blob/v1.2", "blob/v1.1"),
        ("notebooks/03_precision_and_dtype.ipynb", "03_precision_and_dtype.ipynb)", "03.ipynb)"),
        ("notebooks/07_fused_gate_up.ipynb", "owner/name@v1.2", "owner/name@main"),
        ("notebooks/07_fused_gate_up.ipynb", "--no-deps", "--upgrade"),
        ("notebooks/07_fused_gate_up.ipynb", '[\\"1.2\\"]', '[\\"1.1\\"]'),
    ],
)
def test_a_link_that_disagrees_is_found(released, name, old, new):
    path = released / name
    text = links.read(path)
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert astray(released) == [path.name]


def test_another_release_leaves_nothing_of_the_one_before(released):
    links.main(["some-one/else.where", "v2.0rc1"], released)
    for name, text in state(released).items():
        assert not re.search(r"owner/name|v1\.2|\"1\.2\"", text), name
    assert links.address(released) == ("https://github.com/some-one/else.where", "2.0rc1")


@pytest.fixture
def unset(copy):
    """The same without an address."""
    text = re.sub(r"\[project\.urls\]\n(.+\n)*\n", "", links.read(copy / "pyproject.toml"))
    (copy / "pyproject.toml").write_text(text, encoding="utf-8")
    links.main([], copy)
    return copy


def test_a_course_without_an_address_says_how_to_set_it(unset):
    for name in ("README.md", "docs/hub.md"):
        assert "make links REPO=owner/name TAG=v1.0" in links.read(unset / name)
    for name, text in state(unset).items():
        assert not re.search(r"mybinder\.org/v2|colab\.research|git\+https", text), name


def addresses(text):
    """The addresses in a text that open this course or a page of it."""
    for found in re.findall(r"https://[^\s)\"`\\]+", text):
        page = re.match(r"https://github\.com/[\w.-]+/[\w.-]+/(?:blob|tree|raw)/[^/]+/?(.*)", found)
        opens = re.match(r"https://(colab\.research\.google\.com/g|mybinder\.org/v2|HUB)", found)
        if opens or (page and (not page[1] or (ROOT / page[1]).exists())):
            yield found


def opened(link):
    """(owner/name, the tag, the path of the file) that a link leads to."""
    asked = urlsplit(unquote(link))
    query = {key: value for key, [value] in parse_qs(urlsplit(link).query).items()}
    if asked.netloc == "HUB":
        path = query["urlpath"].partition("name/")[2]
        return query["repo"].removeprefix(links.GITHUB), query["branch"][len("class-") :], path
    if asked.netloc == "mybinder.org":
        _, _, _, owner, name, tag = asked.path.split("/")
        return f"{owner}/{name}", tag, query["urlpath"].removeprefix("lab/tree/")
    parts = asked.path.removeprefix("/github").split("/", 5)
    return "/".join(parts[1:3]), parts[4], "".join(parts[5:])


def test_each_link_names_the_release_and_a_file_that_is_there(released):
    for name, text in state(released).items():
        found = [opened(link) for link in addresses(text)]
        for repository, tag, path in found:
            assert (repository, tag) == ("owner/name", "v1.2"), name
            assert not path or (released / path).is_file(), path
        paths = [path for *_, path in found]
        if name.endswith(".ipynb"):
            assert paths == [name, name, ""], "Colab, Binder, the whole course"
        else:
            first = {"README.md": 2, "docs/hub.md": 1}
            assert paths == [links.FIRST] * first.get(name, 0)


def test_no_page_links_to_this_course_in_another_way():
    at = links.address()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *NOTEBOOKS]:
        for link in addresses(links.read(path)):
            assert opened(link)[:2] == (at.name, at.tag), f"{path.name}: {link}"


def test_a_link_to_a_fork_or_a_branch_is_found():
    for link in ("other/fork/blob/v1.2/docs/contributing.md", "owner/name/tree/main"):
        (found,) = addresses(f"[the guide](https://github.com/{link})")
        assert opened(found)[:2] != ("owner/name", "v1.2")
    assert not list(addresses("https://github.com/karpathy/llama2.c/blob/master/model.py"))


def test_the_links_are_those_that_the_hosts_read():
    at = links.Address("https://github.com/owner/name", "1.2")
    notebook = "notebooks/x.ipynb"
    assert at.colab(notebook) == (
        "https://colab.research.google.com/github/owner/name/blob/v1.2/notebooks/x.ipynb"
    )
    assert unquote(at.binder(notebook)) == (
        "https://mybinder.org/v2/gh/owner/name/v1.2?urlpath=lab/tree/notebooks/x.ipynb"
    )
    assert unquote(at.pull("https://hub.example.org")) == (
        "https://hub.example.org/hub/user-redirect/git-pull?repo=https://github.com/owner/name"
        "&branch=class-v1.2&urlpath=lab/tree/name/notebooks/00_start_here.ipynb"
    )
    assert at.at_tag() == "https://github.com/owner/name/tree/v1.2"


def test_outputs_and_all_other_cells_stay(copy):
    before = {path.name: json.loads(links.read(path)) for path in copy.glob("notebooks/*")}
    links.main(["owner/name", "v1.2"], copy)
    for path in copy.glob("notebooks/*"):
        old, new = before[path.name], json.loads(links.read(path))
        changed = [i for i, cell in enumerate(new["cells"]) if cell != old["cells"][i]]
        assert changed == [0, 1], path.name
        assert new["metadata"] == old["metadata"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["owner/name", "v1.0", "v1.1"], "one REPO=owner/name and one TAG=v1.0"),
        (["owner", "v1.0"], "one REPO=owner/name and one TAG=v1.0"),
        (["owner/name", "owner/name"], "one REPO=owner/name and one TAG=v1.0"),
        (["https://github.com/owner/name", "v1.0"], "owner/name is needed"),
        (["owner/name.git", "v1.0"], "owner/name is needed"),
        (["owner/..", "v1.0"], "owner/name is needed"),
        (["owner/na me", "v1.0"], "owner/name is needed"),
        (["owner/name\n", "v1.0"], "owner/name is needed"),
        (["owner/name", "1.0"], "TAG=1.0: v and a version"),
        (["owner/name", "v1.0.post1"], "v and a version"),
        (["owner/name", "v01"], "v and a version"),
        (["owner/name", "main"], "v and a version"),
        (["owner/name", "v1.0\n"], "v and a version"),
        (["", ""], "one REPO=owner/name"),
    ],
)
def test_a_wrong_address_gets_a_sentence_and_changes_nothing(copy, arguments, says):
    before = state(copy)
    with pytest.raises(SystemExit) as stopped:
        links.main(arguments, copy)
    assert says in str(stopped.value)
    assert state(copy) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("README.md", "## What is in it", f"{links.END}\n\n## What is in it"),
        ("README.md", links.BEGIN, ""),
        ("docs/hub.md", links.END, ""),
        ("pyproject.toml", "\nversion = ", "\nedition = "),
        ("CITATION.cff", "\nversion:", "\nedition:"),
        ("CITATION.cff", "\nversion:", "\nversion: 1\nversion:"),
        ("notebooks/02_sqrt_n_norm.ipynb", '"# 02', '"## 02'),
        ("notebooks/02_sqrt_n_norm.ipynb", '"setup"', '"set-up"'),
    ],
)
def test_what_is_not_as_expected_is_named_and_nothing_changes(copy, name, old, new):
    text = links.read(copy / name)
    assert old in text
    (copy / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    before = state(copy)
    with pytest.raises(SystemExit, match=f"^{name}: (one .* needed|it must begin|it has no)"):
        links.main(["owner/name", "v1.2"], copy)
    assert state(copy) == before


def test_a_scratch_notebook_and_its_absence_of_cells_do_no_harm(copy):
    scratch = copy / "notebooks" / "Untitled.ipynb"
    scratch.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    links.main(["owner/name", "v1.2"], copy)
    empty = copy / "notebooks" / "11_empty.ipynb"
    scratch.rename(empty)
    with pytest.raises(SystemExit, match=r"11_empty.ipynb: it must begin with its title"):
        links.main([], copy)


def test_a_file_that_cannot_be_read_or_written_is_named(copy, monkeypatch):
    (copy / "CITATION.cff").rename(copy / "away")
    with pytest.raises(SystemExit, match=r"^CITATION.cff: "):
        links.main([], copy)
    (copy / "away").rename(copy / "CITATION.cff")

    def full(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(links.Path, "write_text", full)
    with pytest.raises(
        SystemExit, match=r"No space left on device\. Not all is written: mend this"
    ):
        links.main([], copy)


def test_a_released_setup_cell_fits_the_house(released):
    source = links.setup_cell(links.address(released))
    assert len(source.splitlines()) <= 21
    assert max(map(len, source.splitlines())) <= 100


def test_what_is_not_said_stays(released):
    links.main(["v1.3"], released)
    assert links.address(released) == ("https://github.com/owner/name", "1.3")
    links.main(["my/fork"], released)
    assert links.address(released) == ("https://github.com/my/fork", "1.3")


def test_without_an_address_a_tag_alone_is_not_enough(unset):
    before = state(unset)
    with pytest.raises(SystemExit, match="REPO=: owner/name is needed"):
        links.main(["v1.0"], unset)
    assert state(unset) == before


@pytest.mark.parametrize(
    "repository",
    [
        "https://gitlab.com/owner/name",
        "git@github.com:owner/name",
        "https://github.com/owner/name/",
        "https://github.com/owner/name.git",
    ],
)
def test_an_address_that_was_written_by_hand_is_checked_too(released, repository):
    text = links.read(released / "pyproject.toml")
    text = text.replace("https://github.com/owner/name", repository)
    (released / "pyproject.toml").write_text(text, encoding="utf-8")
    before = state(released)
    with pytest.raises(SystemExit, match=r"owner/name is needed|must begin with"):
        links.main([], released)
    assert state(released) == before
    links.main(["owner/name", "v1.2"], released)
    assert links.address(released).repository == "https://github.com/owner/name"


def test_other_addresses_in_pyproject_stay(unset):
    path = unset / "pyproject.toml"
    text = links.read(path)
    more = (
        '[project.urls]\nDocumentation = "https://example.org"\n\n[project.optional-dependencies]'
    )
    path.write_text(text.replace("[project.optional-dependencies]", more), encoding="utf-8")
    links.main(["owner/name", "v1.2"], unset)
    links.main(["owner/name", "v1.2"], unset)
    urls = links.tomllib.loads(links.read(path))["project"]["urls"]
    assert urls == {
        "Documentation": "https://example.org",
        "Repository": "https://github.com/owner/name",
    }
