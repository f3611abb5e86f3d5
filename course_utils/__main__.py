"""python -m course_utils: is this environment all right? Exit status 1 when something is to do.

For each package: the version found, the versions wanted, and OK or what to do; then what torch was
built for, and what it runs on here.
"""

import sys

from .notes import say

try:
    from .environment import examine, torch_here
except ModuleNotFoundError as missing:
    name = missing.name.partition(".")[0]
    sys.exit(f"{name} is missing: pip install {name}")

rows = examine()
for name, found, wanted, advice in rows:
    say(f"{'✘' if advice else '✔'} {name:12} {found or '-':14} wanted {wanted:14} {advice or 'OK'}")
problems = sum(bool(advice) for *_, advice in rows)
if any(found for name, found, *_ in rows if name == "torch"):
    works, sentence = torch_here()
    say(f"{'✔' if works else '✘'} {sentence}")
    problems += not works
say(f"{problems} to mend: see the ✘ above." if problems else "All is well.")
sys.exit(1 if problems else 0)
