"""`make assignment`, and nbgrader with what it writes, from the release to the feedback."""

import html
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import assignment
import links
import nbformat
import pytest
from course import ROOT, read
from nbgrader.apps import NbGraderAPI
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.validator import Validator
from traitlets.config import PyFileConfigLoader

from course_utils import check, exercises

LESSONS = ["01_rmsnorm_vs_layernorm", "02_sqrt_n_norm", "03_precision_and_dtype"]
LESSONS += ["04_silu_and_swish", "05_swiglu_ffn", "06_parameter_accounting"]
LESSONS += ["07_fused_gate_up", "08_the_llama_block"]
GRADED = [LESSONS[0], LESSONS[6]]  # notebook 07 has a starter that runs, and is wrong
MENDED = "swiglu_packed"

pytestmark = [
    pytest.mark.xdist_group("assignment"),  # one release for all
    # nbgrader's own, about its database and about a cell that it adds itself.
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.filterwarnings("ignore::nbformat.validator.MissingIDFieldWarning"),
]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The folder, of a course without an address: its setup cell installs nothing."""
    folder = tmp_path_factory.mktemp("grading") / "assignment"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "address", lambda _: links.Address("", "0.1.0"))
        assignment.main([str(folder)])
    return folder


@pytest.fixture(scope="module")
def api(course):
    """nbgrader, as the folder's own configuration sets it up."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    config.CourseDirectory.root = str(course)
    with pytest.MonkeyPatch.context() as patch:  # for alembic, which makes its database
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield NbGraderAPI(config=config)


@pytest.fixture(scope="module")
def released(course, api):
    """The folder with all releases."""
    for name in LESSONS:
        succeeds(api.generate_assignment(name))
    return course


@pytest.fixture(scope="module")
def graded(released, api):
    """The folder after four learners have handed in: see ada, ben, cyn and dan."""
    handed_in = [(name, who) for name in GRADED for who in (ada, ben, cyn)] + [(GRADED[0], dan)]
    for name, who in handed_in:
        notebook = read(notebook_in(released, "release", name))
        path = notebook_in(released, f"submitted/{who.__name__}", name)
        path.parent.mkdir(parents=True)
        nbformat.write(who(notebook), path)
        succeeds(api.autograde(name, who.__name__))
        succeeds(api.generate_feedback(name, who.__name__))
    return released


def held(folder):
    """What the folder holds: path in it -> bytes."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def succeeds(done):
    assert done["success"], done


def notebook_in(folder, step, name):
    return folder / step / name / f"{name}.ipynb"


def cells(notebook, kind):
    """exercise -> its cell of that kind: question, answer or check."""
    parts = [(cell.id.rpartition("-"), cell) for cell in notebook.cells]
    return {name: cell for (name, _, ending), cell in parts if ending == kind}


def answered(notebook, give):
    """The notebook with answers. give: (exercise, what the answer is called) -> code."""
    for name, cell in cells(notebook, "answer").items():
        cell.source = give(name, re.search(r"(?:def|class) (\w+)", cell.source)[1])
    return notebook


WARNING = """
import sys

def {called}(x, weight, eps):
    print("a warning", file=sys.stderr)
    return {right}(x, weight, eps)
"""


def ada(notebook):
    """Answers all, and rightly; one answer warns, which nbgrader would take for a failure."""

    def give(name, called):
        topic = vars(importlib.import_module(f"right_answers.{exercises._HOME[name]}"))
        one = next(
            a for key, a in topic.items() if key.split("__")[0] == name and a.__name__ == key
        )
        bound = WARNING if name == "rms_norm" else "{called} = {right}"
        return f"{inspect.getsource(one)}\n\n" + bound.format(called=called, right=one.__name__)

    return answered(notebook, give)


def ben(notebook):
    """Makes in each exercise a mistake that is listed."""

    def give(name, called):
        at = exercises.load(name).mistakes.index(mistake_of(name))
        listed = f'exercises.load("{name}").mistakes[{at}]'
        return f"from course_utils import exercises\n\n{called} = {listed}.wrong"

    return answered(notebook, give)


def mistake_of(name):
    """What others do on purpose, if that is listed: it is no answer either."""
    mistakes = exercises.load(name).mistakes
    return next((mistake for mistake in mistakes if mistake.convention), mistakes[0])


def cyn(notebook):
    """Hands in what she was given."""
    return notebook


def dan(notebook):
    """Changes one check, deletes another, and does nothing else."""
    first, second, *_ = cells(notebook, "check").values()
    first.source = "pass"
    notebook.cells.remove(second)
    return notebook


def score(api, name, who):
    """The points that a learner has, and those that there are."""
    with api.gradebook as gradebook:
        submission = gradebook.find_submission(name, who)
        return submission.score, submission.max_score


def page(folder, name, who):
    """The words of a learner's feedback."""
    path = notebook_in(folder, f"feedback/{who}", name).with_suffix(".html")
    return bare(without_tags(path.read_text(encoding="utf-8")))


def without_tags(text):
    return html.unescape(re.sub("<[^>]+>", "", text))


def bare(words):
    """Words without Markdown's marks, on one line."""
    return " ".join(re.sub("[`*]", "", words).split())


def faults(api, path):
    """What `nbgrader validate` finds: the last line of each error; "changed" and the like."""
    found = Validator(config=api.config).validate(str(path))
    errors = [without_tags(one["error"]).splitlines()[-1] for one in found.pop("failed", [])]
    return errors + list(found)


# --- What is written


def test_each_exercise_is_an_assignment_cell_worth_its_minutes(course):
    names = []
    for lesson in LESSONS:
        notebook = read(notebook_in(course, "source", lesson))
        nbformat.validate(notebook)
        checks = cells(notebook, "check")
        names += checks
        for name, cell in checks.items():
            assert cell.metadata.nbgrader.points == exercises.load(name).minutes
        for cell in notebook.cells:
            assert cell.metadata.nbgrader.grade_id == cell.id
            assert cell.metadata.nbgrader.locked != cell.id.endswith("-answer")
            assert cell.metadata.nbgrader.schema_version == MetadataValidator.schema_version
    assert sorted(names) == sorted(exercises.NAMES)
    assert {path.parent.name for path in course.glob("source/*/*")} == set(LESSONS)


def test_a_question_is_the_lessons_and_speaks_of_no_cell_that_is_not_there(course):
    for lesson in LESSONS:
        asked = [
            cell.source
            for cell in read(ROOT / "notebooks" / f"{lesson}.ipynb").cells
            if cell.cell_type == "markdown" and "exercise" in cell.metadata.get("tags", [])
        ]
        kept = cells(read(notebook_in(course, "source", lesson)), "question").values()
        assert [cell.source for cell in kept] == asked
        assert not any("folded" in words for words in asked)


def test_a_course_with_an_address_is_linked_and_fetched(monkeypatch):
    at = links.Address(f"{links.GITHUB}owner/name", "1.2")
    monkeypatch.setattr(assignment, "address", lambda _: at)
    for path, text in assignment.files().items():
        if path.startswith("source/"):
            title, setup, *_ = nbformat.reads(text.decode(), as_version=4).cells
            assert f"({at.repository}/blob/v1.2/notebooks/{Path(path).name})" in title.source
            assert setup.source == links.setup_cell(at)


def test_written_again_nothing_changes(tmp_path):
    command = [sys.executable, ROOT / "tools" / "assignment.py", tmp_path / "new"]
    said = subprocess.check_output(command, text=True, encoding="utf-8")
    assert "8 assignments" in said
    before = held(tmp_path / "new")
    assignment.main([str(tmp_path / "new")])
    assert held(tmp_path / "new") == before == assignment.files()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("source/02_sqrt_n_norm/02_sqrt_n_norm.ipynb", "changed"),
        ("gradebook.db", "new"),
        ("source/02_sqrt_n_norm/02_sqrt_n_norm.ipynb", None),
    ],
)
def test_what_a_teacher_has_changed_is_left_alone(tmp_path, path, text):
    assignment.main([str(tmp_path)])
    if text is None:
        (tmp_path / path).unlink()
    else:
        (tmp_path / path).write_text(text)
    before = held(tmp_path)
    with pytest.raises(SystemExit, match=f"see {path}: nothing was written"):
        assignment.main([str(tmp_path)])
    assert held(tmp_path) == before


def test_no_answer_is_imported_before_it_is_asked_for(course):
    for lesson in LESSONS:
        for cell in read(notebook_in(course, "source", lesson)).cells:
            above, solved, _ = cell.source.partition("### BEGIN SOLUTION")
            asked = cell.id.removesuffix("-answer")
            assert not solved or not re.search(rf"import .*\b{asked}\b", above)
            assert cell.id != "imports" or "course_utils" not in cell.source


def test_bad_input_is_named(tmp_path):
    (tmp_path / "file").touch()
    for arguments in ([str(tmp_path / "file")], ["a", "b"], ["--help"]):
        with pytest.raises(SystemExit, match=re.escape(" ".join(arguments))):
            assignment.main(arguments)
    notebook = read(ROOT / "notebooks" / f"{LESSONS[0]}.ipynb")
    question, starter = (c for c in notebook.cells if c.id in ("87f73943", "785231f4"))
    notebook.cells = [starter]
    with pytest.raises(ValueError, match="785231f4 needs its question above it"):
        assignment.tasks(notebook)
    notebook.cells = [question, starter]
    assert assignment.tasks(notebook)
    for old, new in (("def my_rms_norm", "def other"), ("check(", "print(")):
        changed = nbformat.from_dict({**starter, "source": starter.source.replace(old, new)})
        notebook.cells = [question, changed]
        with pytest.raises(ValueError, match="785231f4 must define one function or class"):
            assignment.tasks(notebook)


# --- What nbgrader makes of it


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_source_passes_its_own_checks(course, api, lesson):
    assert faults(api, notebook_in(course, "source", lesson)) == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_release_is_the_source_without_its_solutions(released, lesson):
    source, release = (read(notebook_in(released, step, lesson)) for step in ("source", "release"))
    for mine, theirs in zip(source.cells, release.cells, strict=True):
        starter, begin, _ = mine.source.partition("\n### BEGIN SOLUTION\n")
        assert bool(begin) == mine.id.endswith("-answer")
        assert theirs.source.rstrip() == starter.rstrip()


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_release_fails_its_checks_until_it_is_answered(released, api, lesson):
    path = notebook_in(released, "release", lesson)
    said = ["wrong" if name == MENDED else "not attempted" for name in cells(read(path), "check")]
    assert faults(api, path) == [f"AssertionError: {status}" for status in said]


@pytest.mark.parametrize("name", GRADED)
def test_right_answers_get_all_points_and_others_none(graded, api, name):
    points = sum(exercises.load(n).minutes for n in names_of(graded, name))
    assert score(api, name, "ada") == (points, points)
    assert score(api, name, "ben") == score(api, name, "cyn") == (0, points)


@pytest.mark.parametrize("name", GRADED)
def test_feedback_says_which_mistake_it_is(graded, name):
    assert page(graded, name, "ada").count("✔ Right.") == len(names_of(graded, name))
    for exercise in names_of(graded, name):
        said = bare(repr(check(exercise, mistake_of(exercise).wrong)))
        assert said in page(graded, name, "ben")
        assert said not in page(graded, name, "cyn")
    assert "◇ Other convention." in page(graded, name, "ben")
    assert "○ Not attempted." in page(graded, name, "cyn")


def names_of(folder, lesson):
    return list(cells(read(notebook_in(folder, "source", lesson)), "check"))


def test_a_check_that_was_changed_or_deleted_counts_as_it_was(graded, api):
    name = GRADED[0]
    source, handed_in, after = (
        [cell.source for cell in read(notebook_in(graded, step, name)).cells]
        for step in ("source", "submitted/dan", "autograded/dan")
    )
    checks = [words for words in source if "verdict = check(" in words]
    for words, count in ((handed_in, 1), (after, len(checks))):
        assert sum(any(check in cell for cell in words) for check in checks) == count
    assert score(api, name, "dan")[0] == 0
