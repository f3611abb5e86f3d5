"""python -m course_utils: print each package's version and range; exit with 1 if one is wrong."""

import sys

from .notes import say

try:
    from .environment import examine
except ModuleNotFoundError as missing:
    name = missing.name.partition(".")[0]
    sys.exit(f"{name} is missing: pip install {name}")

problems = 0
for name, found, wanted, advice in examine():
    problems += bool(advice)
    sign = "✘" if advice else "✔"
    say(f"{sign} {name:12} {found or '-':14} wanted {wanted:14} {advice or 'OK'}")
sys.exit(1 if problems else 0)
