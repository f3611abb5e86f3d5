"""python -m course_utils: print each package's version and range; exit with 1 if one is wrong."""

import sys

from .environment import examine
from .notes import say

problems = 0
for name, found, wanted, advice in examine():
    problems += bool(advice)
    sign = "✘" if advice else "✔"
    say(f"{sign} {name:12} {found or '-':14} wanted {wanted:14} {advice or 'OK'}")
sys.exit(1 if problems else 0)
