"""The exercises: `check("rms_norm", my_rms_norm)` says whether an answer is right, or which mistake
it is; `help_with("rms_norm")` shows hints and a solution, folded.

One file per topic holds references that the library does not need itself, inputs, properties,
mistakes and hints. `python -m course_utils.exercises` prints all mistakes and what is said of them.
"""

import ast
import difflib
import importlib
import inspect
import sys
import textwrap

from ..checker import diagnose
from ..notes import markdown

# The file that holds each exercise, in the order of the course.
_HOME = {
    **dict.fromkeys(("rms_norm", "layer_norm", "rms_norm_module"), "norms"),
}
NAMES = tuple(_HOME)


def load(name):
    """The Exercise of that name. Raises ValueError, with the nearest names, for another one."""
    if name not in _HOME:
        near = difflib.get_close_matches(str(name), NAMES) or NAMES
        raise ValueError(f"no exercise is called {name!r}; there is {', '.join(near)}")
    topic = importlib.import_module(f".{_HOME[name]}", __name__)
    return next(exercise for exercise in topic.EXERCISES if exercise.name == name)


def check(name, answer):
    """Judge your answer to an exercise.

    name: of the exercise, as "rms_norm". answer: your function or class itself.
    Returns a Verdict, which the notebook shows; it is true when the answer is right. Never raises
    for what the answer does; ValueError when there is no such exercise.
    """
    return diagnose(load(name), answer)


def help_with(name):
    """Show the hints of an exercise by degrees, and one solution, each folded."""
    exercise = load(name)
    count = len(exercise.hints)
    titles = [f"Hint {i} of {count}" if count > 1 else "A hint" for i in range(1, count + 1)]
    blocks = list(zip(titles, exercise.hints, strict=True))
    code = solution(exercise)
    folded = [*blocks, ("A solution", f"```python\n{code}\n```")]
    markdown(
        "\n\n".join(f"<details><summary>{t}</summary>\n\n{b}\n\n</details>" for t, b in folded),
        "\n".join(f"{t}: {b}" for t, b in [*blocks, ("A solution", f"\n{code}")]),
    )


def solution(exercise):
    """The reference's own source as text: no docstring and no checks of arguments, but with the
    private helpers that it calls.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(exercise.reference)))
    lines = textwrap.dedent(inspect.getsource(exercise.reference)).splitlines()
    dropped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and (_is_words(node.value) or _is_check(node.value)):
            dropped |= set(range(node.lineno, node.end_lineno + 1))
    kept = [line for number, line in enumerate(lines, 1) if number not in dropped]
    home = vars(sys.modules[exercise.reference.__module__])
    helpers = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.startswith("_")]
    helpers = [name for name in dict.fromkeys(helpers) if not name.startswith("_check")]
    return "\n\n\n".join(["\n".join(kept), *(_source(home[name]) for name in helpers)])


def _source(helper):
    return inspect.getsource(helper).rstrip() if callable(helper) else repr(helper)


def _is_words(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_check(node):
    called = getattr(node, "func", None)
    return isinstance(called, ast.Name) and called.id.startswith("_check")
