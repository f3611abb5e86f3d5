"""python -m course_utils: is this environment all right, and what to do if not? Status 1: not."""

import sys

from .notes import say

try:
    from .environment import examine, torch_here

    rows = examine()
except ModuleNotFoundError as missing:
    name = missing.name.partition(".")[0]
    if name == "tomllib":  # came with the oldest Python allowed
        sys.exit(f"Python {sys.version.split()[0]} is too old: start the course with a newer one")
    sys.exit(f'{name} is missing: "{sys.executable}" -m pip install {name}')

for name, found, wanted, advice in rows:
    say(f"{'✘' if advice else '✔'} {name:12} {found or '-':14} wanted {wanted:14} {advice or 'OK'}")
problems = sum(bool(advice) for *_, advice in rows)
if any(found for name, found, *_ in rows if name == "torch"):
    works, sentence = torch_here()
    say(f"{'✔' if works else '✘'} {sentence}")
    problems += not works
say(f"{problems} to mend: see the ✘ above." if problems else "All is well.")
sys.exit(1 if problems else 0)
