"""The exercises: `check("rms_norm", my_rms_norm)` says whether an answer is right, or which mistake
it is; `help_with("rms_norm")` shows hints and a solution, folded.

What is said of an exercise stands in `<its name>.md`: a right answer, hints, and the known wrong
answers with their replies (`..catalogue` reads it). A Python file per topic holds what only code
can say: inputs, how an answer is put to work, and what every right answer obeys.
"""

import difflib
import importlib

from ..checker import diagnose
from ..guard import undisturbed
from ..notes import markdown

# The file that holds each exercise, in the order of the course.
_HOME = {
    **dict.fromkeys(("rms_norm", "layer_norm", "rms_norm_module"), "norms"),
    **dict.fromkeys(("expected_norm", "rms_norm_backward"), "lengths"),
    **dict.fromkeys(("rms_norm_half", "gemma_norm"), "precision"),
    **dict.fromkeys(("silu", "swish", "silu_backward"), "activations"),
    **dict.fromkeys(("swiglu_ffn", "swiglu_module", "swiglu_backward"), "ffn"),
    **dict.fromkeys(("ffn_params", "intermediate_size", "model_params"), "widths"),
    **dict.fromkeys(("swiglu_packed", "fuse_gate_up", "shard_gate_up"), "packed"),
    **dict.fromkeys(("llama_block", "llama_stack", "qk_norm"), "block"),
}
NAMES = tuple(_HOME)


def load(name):
    """The Exercise of that name. Raises ValueError, with the nearest names, for another one."""
    if callable(name):
        raise ValueError('the name of the exercise comes first: check("rms_norm", my_rms_norm)')
    if not isinstance(name, str) or name not in _HOME:
        near = difflib.get_close_matches(str(name), NAMES) or NAMES
        raise ValueError(f"no exercise is called {name!r}; there is {', '.join(near)}")
    with undisturbed():  # a topic makes its inputs when it is imported
        topic = importlib.import_module(f".{_HOME[name]}", __name__)
    return next(exercise for exercise in topic.EXERCISES if exercise.name == name)


def mistake(name, known_as):
    """The slip of an exercise that is known by this id; its `wrong` is the wrong answer."""
    found = {mistake.id: mistake for mistake in load(name).mistakes}
    if known_as not in found:
        raise ValueError(f"{name} has no mistake {known_as!r}; there is {', '.join(found)}")
    return found[known_as]


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
    folded = [*blocks, ("A solution", f"```python\n{exercise.solution}\n```")]
    markdown(
        "\n\n".join(f"<details><summary>{t}</summary>\n\n{b}\n\n</details>" for t, b in folded),
        "\n".join(f"{t}: {b}" for t, b in [*blocks, ("A solution", f"\n{exercise.solution}")]),
    )
