"""Write the exercises as an nbgrader course: python tools/assignment.py [folder]

The folder, `assignment` unless named, gets nbgrader's configuration and, in `source`, one
assignment for each notebook that has exercises. An exercise is three cells: the question, the
answer, and a locked check, which gives a point for each minute that the exercise takes. The answer
of `source` holds the solution, which nbgrader takes out for learners.

A folder that holds something else is left as it is: a teacher may have changed it.
"""

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
from links import ROOT, address, setup_cell
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from refresh import METADATA

import course_utils
from course_utils import exercises

FOLDER = "assignment"
SCHEMA = 3  # of nbgrader's metadata, in 0.9
CONFIG = """\
# The exercises of the course on RMSNorm and SwiGLU, for nbgrader. Written by `make assignment`.
c = get_config()  # noqa: F821  nbgrader brings it

c.CourseDirectory.course_id = "rmsnorm_swiglu"
c.ClearSolutions.code_stub = {"python": ""}  # what learners begin with stands above the solution
c.OverwriteCells.add_missing_cells = True  # a check that was deleted comes back and counts
c.Execute.timeout = 120  # seconds for a cell: to import torch takes long on a busy machine
c.Execute.extra_arguments = ["--IPKernelApp.log_level=ERROR"]  # else each kernel has a warning
"""

INTRO = """\
# Exercises for {title}

Write each answer into its cell, in place of `raise NotImplementedError`, and run all cells from \
top to bottom. The locked cell below an answer checks it: run it as often as you like. It says ✔ \
or which mistake it is, and gives points for ✔ alone: as many as the minutes named in the question.

The questions come from {lesson}: what they call the formula, the picture or "above" stands there. \
What is optional there counts here too."""

# What the lessons import for answers.
GIVEN = ("math", "torch", "F", "nn")
IMPORTS = """\
import math

import torch
import torch.nn.functional as F
from torch import nn"""

# nbgrader gives no points where anything was written to stderr.
CHECK = """\
import contextlib
import io

from course_utils import check

with contextlib.redirect_stderr(io.StringIO()):
    verdict = check("{name}", {answer})
display(verdict)
assert verdict, verdict.status"""


class Task(NamedTuple):
    """One exercise of a notebook. answer: what the learner's function or class is called."""

    name: str
    question: str
    starter: str
    answer: str


def tasks(notebook):
    """The Tasks of a notebook, in its order. ValueError: which cell is not as it should be."""
    found, question = [], None
    for cell in notebook.cells:
        if "exercise" not in cell.metadata.get("tags", []):
            continue
        if cell.cell_type == "markdown":
            question = cell.source
        elif question is None:
            raise ValueError(f"the exercise's cell {cell.id} needs its question above it")
        else:
            found.append(Task(question=question, **_starter(cell)))
            question = None
    return found


def _starter(cell):
    """The parts of a starter: what is defined, and the names in the check that ends it."""
    *above, last = ast.parse(cell.source).body
    defined = [node for node in above if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    ends = re.fullmatch(r'check\("(\w+)", (\w+)\)', ast.get_source_segment(cell.source, last))
    if not ends or [node.name for node in defined] != [ends[2]]:
        raise ValueError(
            f"the exercise's cell {cell.id} must define one function or class and end in "
            'check("name of the exercise", that)'
        )
    lines = cell.source.splitlines()[defined[0].lineno - 1 : last.lineno - 1]
    return {"name": ends[1], "starter": "\n".join(lines).rstrip(), "answer": ends[2]}


def solution(task):
    """The printed solution of a task, with what it needs besides GIVEN, under the answer's name."""
    exercise = exercises.load(task.name)
    nodes = list(ast.walk(ast.parse(exercise.solution)))
    home = vars(sys.modules[exercise.reference.__module__])
    used = {node.id for node in nodes if isinstance(node, ast.Name)} & set(home)
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    needed = sorted(used - own - set(GIVEN))
    imports = "".join(f"from {home[name].__module__} import {name}\n" for name in needed)
    gap = "\n\n" if imports else ""
    return f"{imports}{gap}{exercise.solution}\n\n\n{task.answer} = {exercise.reference.__name__}"


def given(task):
    """The import of what of the helper a question names, above the answer to it."""
    named = {
        name
        for name in re.findall(r"\w+", " ".join(re.findall(r"`(.+?)`", task.question)))
        if name in course_utils.__all__ and name not in (task.name, "check")
    }
    return f"from course_utils import {', '.join(sorted(named))}\n\n\n" if named else ""


def assignment(notebook, stem, at):
    """The nbgrader notebook of a lesson's notebook. at: the course's Address."""
    found = tasks(notebook)
    title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    name = f"notebooks/{stem}.ipynb"
    lesson = f"the lesson `{name}`"
    if at.repository:
        lesson = f"the lesson [{title}]({at.repository}/blob/{at.tag}/{name})"
    cells = [
        _cell(new_markdown_cell, "title", INTRO.format(title=title, lesson=lesson)),
        _cell(new_code_cell, "setup", setup_cell(at)),
        _cell(new_code_cell, "imports", IMPORTS),
    ]
    for task in found:
        start = given(task) + task.starter
        answer = f"{start}\n\n\n### BEGIN SOLUTION\n{solution(task)}\n### END SOLUTION"
        check = CHECK.format(**task._asdict())
        points = exercises.load(task.name).minutes
        cells += [
            _cell(new_markdown_cell, f"{task.name}-question", task.question),
            _cell(new_code_cell, f"{task.name}-answer", answer, locked=False, solution=True),
            _cell(new_code_cell, f"{task.name}-check", check, grade=True, points=points),
        ]
    return new_notebook(cells=cells, metadata=METADATA)


def _cell(make, name, source, **differs):
    """A cell that learners cannot change, unless it differs. name: its id, also nbgrader's."""
    usual = {"grade": False, "locked": True, "solution": False, "task": False}
    nbgrader = {"grade_id": name, "schema_version": SCHEMA, **usual, **differs}
    return make(source, id=name, metadata={"nbgrader": nbgrader})


def files(root=ROOT):
    """What the folder should hold: path in it -> bytes."""
    at = address(root)
    texts = {"nbgrader_config.py": CONFIG}
    for path in sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        try:
            if tasks(notebook):
                text = nbformat.writes(assignment(notebook, path.stem, at))
                texts[f"source/{path.stem}/{path.name}"] = text + "\n"
        except ValueError as problem:
            raise ValueError(f"{path.name}: {problem}") from problem
    return {name: text.encode() for name, text in texts.items()}


def astray(folder, wanted):
    """The first path in the folder that is not as wanted; None, also for an empty folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in found:
        name = path.relative_to(folder).as_posix()
        if name not in wanted or path.read_bytes() != wanted[name]:
            return name
    missing = [name for name in wanted if folder / name not in found]
    return missing[0] if found and missing else None


def main(arguments, root=ROOT):
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        sys.exit(f"{' '.join(arguments)}: the name of one folder is expected")
    folder = Path(*filter(None, arguments)) if any(arguments) else root / FOLDER
    if folder.exists() and not folder.is_dir():
        sys.exit(f"{folder} is a file: the name of a folder is expected")
    try:
        wanted = files(root)
        if name := astray(folder, wanted):
            sys.exit(
                f"{folder} is not as `make assignment` writes it, see {name}: nothing was "
                "written. Name a new folder: make assignment FOLDER=other"
            )
        for name, text in wanted.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
    except (OSError, ValueError) as problem:
        sys.exit(str(problem))
    print(f"Written: {folder}, {len(wanted) - 1} assignments. Next: docs/teaching.md.")


if __name__ == "__main__":
    main(sys.argv[1:])
