"""Write the course's address into everything that leads to it.

    python tools/links.py                      as pyproject.toml says
    python tools/links.py owner/name v1.0      say so first: that repository, that release
    python tools/links.py v1.1                 what is not said stays: here the repository

pyproject.toml alone knows the address: [project.urls] Repository, and the version, whose tag is
"v" and the version. From it come the launch line and the setup cell of each notebook, the badges
of README.md, the class's link in docs/hub.md, and the address in CITATION.cff. Written twice,
nothing changes. Links name the tag, because a branch moves on under those who follow them.
"""

import re
import sys
import tomllib
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import urlencode

import nbformat

ROOT = Path(__file__).resolve().parents[1]
FIRST = "notebooks/00_start_here.ipynb"
GITHUB = "https://github.com/"
BEGIN, END = "<!-- links: written by make links -->", "<!-- /links -->"
LAUNCH = r"^Run it in \[Colab\].*\n\n"  # a notebook's launch line

UNSET = (
    "Links that open the course in one click come here with `make links REPO=owner/name TAG=v1.0`: "
    "see [Publish a release]({}#publish-a-release)."
)

NO_LESSON = "# Run this first, and read on below: it finds course_utils, the helper of this course."
AT_HOME = """\
home = [p for p in ("..", ".") if Path(p, "course_utils", "__init__.py").exists()]
if home:  # the notebook lies in its course
    sys.path.insert(0, str(Path(home[0]).resolve()))
"""

# The setup cell of a course that does not know its address.
WITHOUT_ADDRESS = f"""\
{NO_LESSON}
import importlib.util
import sys
from pathlib import Path

{AT_HOME}\
elif importlib.util.find_spec("course_utils") is None:
    raise ModuleNotFoundError("course_utils: open this notebook in the course's own folder")"""

# And of one that does. --no-deps: nobody's torch, numpy or ipywidgets is touched.
WITH_ADDRESS = f"""\
{NO_LESSON}
import site
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

course = "git+$repository@$tag"
{AT_HOME}\
elif [d.version for d in distributions(name="course-utils")][:1] != ["$version"]:
    print(f"Installing course_utils, and nothing else, from {{course}}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", course]
    done = subprocess.run(pip, check=False, capture_output=True, text=True)
    if done.returncode:
        needs = "It takes pip, git and the internet. Behind a proxy, run %env HTTPS_PROXY=… first; "
        needs += "offline, open the notebook in a copy of the whole course."
        raise RuntimeError(f"{{done.stderr}}\\n{{needs}}")
    if site.ENABLE_USER_SITE:  # where pip writes if it may not elsewhere
        site.addsitedir(site.getusersitepackages())"""


class Address(NamedTuple):
    """Where the course lives. repository: its https address, or "" as long as nobody has said."""

    repository: str
    version: str

    @property
    def name(self):
        """owner/name."""
        return self.repository.removeprefix(GITHUB)

    @property
    def tag(self):
        """The release's tag, which links name."""
        return f"v{self.version}"

    @property
    def branch(self):
        """A branch beside the tag, for nbgitpuller: it cannot pull a tag a second time."""
        return f"class-{self.tag}"

    def at_tag(self):
        """The repository as it was at the release."""
        return f"{self.repository}/tree/{self.tag}"

    def colab(self, notebook):
        """Opens one notebook in Colab."""
        return f"https://colab.research.google.com/github/{self.name}/blob/{self.tag}/{notebook}"

    def binder(self, notebook):
        """Opens one notebook in JupyterLab on Binder."""
        query = urlencode({"urlpath": f"lab/tree/{notebook}"})
        return f"https://mybinder.org/v2/gh/{self.name}/{self.tag}?{query}"

    def pull(self, hub):
        """Copies the course to each learner of a JupyterHub, and opens notebook 00 there."""
        folder = self.name.rpartition("/")[2]
        query = {"repo": self.repository, "branch": self.branch}
        query["urlpath"] = f"lab/tree/{folder}/{FIRST}"
        return f"{hub}/hub/user-redirect/git-pull?{urlencode(query)}"


def address(root=ROOT):
    """The Address that pyproject.toml gives."""
    try:
        return _address(read(root / "pyproject.toml"))
    except ValueError as problem:
        raise ValueError(f"pyproject.toml: {problem}") from problem


def _address(pyproject):
    project = tomllib.loads(pyproject)["project"]
    if "version" not in project:
        raise ValueError("it has no version")
    at = Address(project.get("urls", {}).get("Repository", ""), project["version"])
    if at.repository and not at.repository.startswith(GITHUB):
        raise ValueError(f"Repository must begin with {GITHUB}")
    return asked_for(at.name, at.tag) if at.repository else at


def asked_for(repo, tag):
    """The Address of owner/name and v1.0. ValueError: what is wrong with them."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+/(?!\.+$)[A-Za-z0-9._-]+(?<!\.git)", repo):
        raise ValueError(f"REPO={repo}: owner/name is needed, as in {GITHUB}owner/name")
    if not re.fullmatch(r"v(0|[1-9]\d*)(\.(0|[1-9]\d*))*((a|b|rc)(0|[1-9]\d*))?", tag):
        raise ValueError(f"TAG={tag}: v and a version is needed, as in v1.0 or v2.1rc1")
    return Address(GITHUB + repo, tag[1:])


def both(arguments, root):
    """owner/name and the tag; what is not among the arguments is as pyproject.toml says."""
    names = [argument for argument in arguments if "/" in argument]
    tags = [argument for argument in arguments if "/" not in argument]
    if len(names) > 1 or len(tags) > 1:
        raise ValueError(f"{' '.join(arguments)}: one REPO=owner/name and one TAG=v1.0 are needed")
    return names[0] if names else address(root).name, tags[0] if tags else address(root).tag


def setup_cell(at):
    """The source of each notebook's setup cell."""
    text = Template(WITH_ADDRESS if at.repository else WITHOUT_ADDRESS)
    return text.substitute(repository=at.repository, version=at.version, tag=at.tag)


def launch_line(at, notebook):
    """The line below a notebook's title: where it runs at once. Empty without an address."""
    if not at.repository:
        return ""
    return (
        f"Run it in [Colab]({at.colab(notebook)}) or on [Binder]({at.binder(notebook)}) · "
        f"[the whole course]({at.at_tag()})\n\n"
    )


def badges(at):
    """What README.md shows: two badges and what they promise, or how to come by them."""
    if not at.repository:
        return UNSET.format("docs/contributing.md")
    colab = "https://colab.research.google.com/assets/colab-badge.svg"
    binder = "https://mybinder.org/badge_logo.svg"
    return (
        f"[![Open notebook 00 in Colab]({colab})]({at.colab(FIRST)})\n"
        f"[![Open the course on Binder]({binder})]({at.binder(FIRST)})\n\n"
        "Binder needs nothing but a browser, Colab a Google account too. A notebook works alone,\n"
        "too: its first cell fetches the course's helper, and changes no other package."
    )


def class_link(at):
    """What docs/hub.md shows: the link for learners, with the hub's name to be put in."""
    if not at.repository:
        return UNSET.format("contributing.md")
    return f"```text\n{at.pull('https://HUB')}\n```"


def between_marks(text, block):
    """The text with this block between its marks."""
    parts = re.fullmatch(f"(.*{BEGIN}\n).*(\n{END}.*)", text, re.S)
    if not parts or text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"one {BEGIN} is needed, and one {END} below it")
    return parts[1] + block + parts[2]


def in_notebook(text, name, at):
    """A notebook's text with its launch line and its setup cell; outputs stay as they are."""
    notebook = nbformat.reads(text, as_version=4)
    kinds = [cell.cell_type for cell in notebook.cells[:2]]
    first, second = notebook.cells[:2] if kinds == ["markdown", "code"] else (None, None)
    if not first or first.source[:2] != "# " or "setup" not in second.metadata.get("tags", []):
        raise ValueError("it must begin with its title, and a code cell with the tag setup below")
    title, _, rest = re.sub(LAUNCH, "", first.source, flags=re.M).partition("\n\n")
    first.source = f"{title}\n\n{launch_line(at, name)}{rest}"
    second.source = setup_cell(at)
    return nbformat.writes(notebook) + "\n"


def in_pyproject(text, at):
    """pyproject.toml's text with the version and [project.urls]."""
    text = re.sub(r'^version = ".*"$', f'version = "{at.version}"', text, flags=re.M)
    head, below = "[project.urls]\n", "[project.optional-dependencies]\n"
    if at.repository and head not in text:
        text = text.replace(below, f"{head}\n{below}")
    line = f'Repository = "{at.repository}"\n' if at.repository else ""
    text = re.sub(r'^Repository = ".*"\n', "", text, flags=re.M).replace(head, head + line)
    if _address(text) != at:
        raise ValueError("its version, or where [project.urls] belongs, is not found")
    return text


def in_citation(text, at):
    """CITATION.cff's text with the version and the address."""
    code = f"\nrepository-code: {at.repository}" if at.repository else ""
    text = re.sub(r"^repository-code: .*\n", "", text, flags=re.M)
    text, found = re.subn(r"^version: .*$", f'version: "{at.version}"{code}', text, flags=re.M)
    if found != 1:
        raise ValueError("one line that begins with version: is needed")
    return text


def texts(root, at):
    """What each file that knows the address should say: path -> text."""
    ways = {
        "pyproject.toml": in_pyproject,
        "CITATION.cff": in_citation,
        "README.md": lambda text, at: between_marks(text, badges(at)),
        "docs/hub.md": lambda text, at: between_marks(text, class_link(at)),
    }
    lessons = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    for path in [*lessons, root / "docs" / "question_bank.ipynb"]:
        name = path.relative_to(root).as_posix()
        ways[name] = lambda text, at, name=name: in_notebook(text, name, at)
    said = {}
    for name, way in ways.items():
        try:
            said[root / name] = way(read(root / name), at)
        except (OSError, ValueError) as problem:
            raise ValueError(f"{name}: {problem}") from problem
    return said


def read(path):
    return path.read_text(encoding="utf-8")


def main(arguments, root=ROOT):
    try:
        at = asked_for(*both(arguments, root)) if arguments else address(root)
        said = texts(root, at)
    except ValueError as problem:
        sys.exit(str(problem))
    try:
        for path, text in said.items():
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as problem:
        sys.exit(f"{problem}. Not all is written: mend this, then run `make links` again")
    print(f"Written: {at.repository or 'no address'}, {at.tag}.")
    if at.repository:
        print(
            "The links work when the release is there. After your commit:\n"
            f"  git tag {at.tag}\n"
            f"  git push origin HEAD refs/tags/{at.tag} HEAD:refs/heads/{at.branch}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
