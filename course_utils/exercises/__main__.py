"""Print every mistake and what is said of it: python -m course_utils.exercises [name ...]"""

import os
import sys
import textwrap

from ..checker import reading
from ..notes import say
from . import NAMES, load


def table(names=NAMES):
    """The lines of the table: for each exercise its mistakes, messages and where they were seen."""
    for name in names:
        exercise = load(name)
        yield f"{name}: {len(exercise.mistakes)} mistakes, {len(exercise.properties)} properties"
        for mistake in exercise.mistakes:
            yield f"  {mistake.id}" + (" (another convention)" if mistake.convention else "")
            said = mistake.message + reading(mistake.read)
            yield from textwrap.wrap(said, 96, initial_indent="    ", subsequent_indent="    ")
            if mistake.seen:
                yield f"    seen: {mistake.seen}"
        for rule in exercise.properties:
            yield f"  else, if not {rule.name}: what is off, in numbers.{reading(rule.read)}"
        yield ""


if __name__ == "__main__":
    try:
        for line in table(sys.argv[1:] or NAMES):
            say(line)
        sys.stdout.flush()
    except ValueError as problem:
        sys.exit(str(problem))
    except BrokenPipeError:  # as in `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
