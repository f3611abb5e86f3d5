"""Each link agrees with the address in pyproject.toml, and `make links` writes them all."""

import json
import re
import shutil
from urllib.parse import parse_qs, unquote, urlsplit

import links
import pytest
from course import NOTEBOOKS, ROOT

HOLDERS = ["pyproject.toml", "CITATION.cff", "README.md", "docs/teaching.md"]
HOLDERS += [path.relative_to(ROOT).as_posix() for path in NOTEBOOKS]


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
        ("docs/teaching.md", "class-v1.2", "main"),
        ("CITATION.cff", 'version: "1.2"', 'version: "1.1"'),
        ("CITATION.cff", "github.com/owner/name", "github.com/owner/other"),
        ("notebooks/03_precision_and_dtype.ipynb", "blob/v1.2", "blob/v1.1"),
        ("notebooks/03_precision_and_dtype.ipynb", "03_precision_and_dtype.ipynb)", "03.ipynb)"),
        ("notebooks/07_fused_gate_up.ipynb", "owner/name@v1.2", "owner/name@main"),
        ("notebooks/07_fused_gate_up.ipynb", "--no-deps", "--upgrade"),
        ("notebooks/07_fused_gate_up.ipynb", 'd.version == \\"1.2\\"', 'd.version == \\"1.1\\"'),
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
        assert not re.search(r"owner/name|v1\.2|\"1\.2\"", text.replace(links.HOW_TO_SET, "")), name
    assert links.address(released) == ("https://github.com/some-one/else.where", "2.0rc1")


def test_a_course_without_an_address_says_how_to_set_it(copy):
    text = re.sub(r"\[project\.urls\]\n.*\n\n", "", links.read(copy / "pyproject.toml"))
    (copy / "pyproject.toml").write_text(text, encoding="utf-8")
    links.main([], copy)
    for name in ("README.md", "docs/teaching.md"):
        assert "make links REPO=owner/name TAG=v1.0" in links.read(copy / name)
    for name, text in state(copy).items():
        assert not re.search(r"mybinder\.org/v2|colab\.research|git\+https", text), name


def addresses(folder):
    """The addresses that a learner may follow: (file, its https links to Colab, Binder, a hub)."""
    for name, text in state(folder).items():
        for found in re.findall(r"https://[^\s)\"`]+", text):
            if re.match(r"https://(colab\.research|mybinder\.org/v2|HUB)", found):
                yield name, found


def test_each_link_names_the_release_and_a_notebook_that_is_there(released):
    found = dict.fromkeys(HOLDERS, 0)
    for name, link in addresses(released):
        if link.endswith("colab-badge.svg"):
            continue
        found[name] += 1
        asked = urlsplit(link)
        query = {key: value for key, [value] in parse_qs(asked.query).items()}
        tag = query.get("branch", "").removeprefix("class-") or "v1.2"
        assert tag == "v1.2" and ("v1.2" in asked.path or query["branch"])
        opened = query.get("urlpath", asked.path).rpartition("notebooks/")[2]
        assert (released / "notebooks" / opened).is_file(), link
        if name.endswith(".ipynb"):
            assert opened == name.partition("/")[2], "it opens another notebook"
    assert found == {
        name: 2 if name.endswith(("README.md", ".ipynb")) else int("teaching" in name)
        for name in HOLDERS
    }


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
        (["owner/name"], "both are needed"),
        (["owner", "v1.0"], "REPO=owner: owner/name"),
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
        (["", ""], "REPO="),
    ],
)
def test_a_wrong_address_gets_a_sentence_and_changes_nothing(copy, arguments, says):
    before = state(copy)
    with pytest.raises(SystemExit) as stopped:
        links.main(arguments, copy)
    assert says in str(stopped.value)
    assert state(copy) == before


@pytest.mark.parametrize("name", ["README.md", "docs/teaching.md", "pyproject.toml"])
def test_a_file_without_its_place_is_named_and_nothing_changes(copy, name):
    text = links.read(copy / name).replace(links.END, "").replace("\nversion = ", "\nedition = ")
    (copy / name).write_text(text, encoding="utf-8")
    before = state(copy)
    with pytest.raises(SystemExit) as stopped:
        links.main(["owner/name", "v1.2"], copy)
    assert str(stopped.value).startswith(f"{name}: ")
    assert state(copy) == before


def test_a_released_setup_cell_fits_the_house(released):
    source = links.setup_cell(links.address(released))
    assert len(source.splitlines()) <= 18
    assert max(map(len, source.splitlines())) <= 100
