"""The catalogue of slips: one Markdown file for each exercise, `exercises/<name>.md`, read here.

A file holds a right answer in plain code, hints, and slips, each under the heading of the notebook
that explains it:

    ## 02 Quiz: why is the length √n and not 1?
    - R09: `.mean(` → `.sum(`
      This *sums* the squares where it should average them. <https://github.com/…>

A slip is an edit of the right answer's text, or several with commas between them; every place of
the old text is changed, and `nothing` stands for no text. Where no edit will do, code takes its
place: one line in backticks or a fenced block, the body of the function or a whole definition.
◇ behind the id means that others do so on purpose, words in brackets are a short name, and an
address in <> says where the slip was really made. `- as in rms_norm: R01, R09` takes over slips of
another file, `- as in rms_norm, with q for x: R01` with that word changed.

`check` names slips by what they do, tests put them in the library's place, and notebook 10 trains
some: all three read them here.
"""

import contextlib
import dataclasses
import functools
import itertools
import re
from pathlib import Path

from .checker import Exercise

FOLDER = Path(__file__).parent / "exercises"
EDIT = r"`(?P<old>[^`]+)` → (?:`(?P<new>[^`]+)`|nothing)"
HEAD = re.compile(
    r"- (?P<id>[\w-]+)(?P<convention> ◇)?(?: \((?P<title>.+?)\))?:"
    rf"(?: (?P<edits>{re.sub(r'[?]P<[a-z]+>', '', EDIT)}(?:, (?=`)|$))+| `(?P<code>[^`]+)`)?"
)
SAME = re.compile(
    r"- as in (?P<name>\w+)(?:, with (?P<words>\w+ for \w+(?: and \w+ for \w+)*))?"
    r": (?P<ids>[\w-]+(?:, [\w-]+)*)"
)
TITLE = re.compile(
    r"# (\w+)\((.*)\)\n(\d+) minutes\. Read \*(.+)\*\.\n\n```python\n(.+?)\n```", re.S
)


@dataclasses.dataclass(frozen=True, eq=False)
class Slip:
    """A known wrong answer.

    edits: pairs of right and wrong text; or code: what stands in the place of all. message: whole
    sentences: what it does, why that is wrong, what to do. read: "NN heading", where it is
    explained. convention: whether others do this on purpose; the message then names who. seen:
    where it was really made. title: a short name, or "". place: "file:line". sheet: its Sheet.
    """

    id: str
    message: str
    read: str
    sheet: "Sheet"
    place: str
    edits: tuple = ()
    code: str = ""
    convention: bool = False
    seen: str = ""
    title: str = ""

    @functools.cached_property
    def wrong(self):
        """The slip as a function or class that can be called."""
        text = self.code and self.sheet.whole(self.code)
        return self.sheet.made(text or self.edit(self.sheet.text), self.place)

    def edit(self, text):
        """The text with this slip in it. ValueError where an old text is not in it."""
        for old, new in self.edits:
            if old not in text:
                raise ValueError(f"{self.place}: {self.id} changes `{old}`, which is not there")
            text = text.replace(old, new)
        return text


@dataclasses.dataclass(eq=False)
class Sheet:
    """What the file of one exercise says. text: the right answer, its definition first, then what
    it calls. namespace: where its names are looked up.
    """

    name: str
    arguments: tuple
    minutes: int
    read: str
    text: str
    hints: tuple = ()
    slips: tuple = ()
    namespace: dict = dataclasses.field(default_factory=dict)

    def whole(self, code):
        """The definition that a slip's code stands for: itself, or a body."""
        if re.match(r"(@|def |class )", code):
            return code
        body = "".join(f"    {line}\n" for line in code.splitlines())
        return f"def {self.name}({', '.join(self.arguments)}):\n{body}"

    def made(self, text, place):
        """What the first definition of a text defines. ValueError for text that is no code."""
        names = dict(self.namespace)
        try:
            exec(compile(text, str(FOLDER / place), "exec"), names)
        except Exception as error:
            raise ValueError(f"{place}: {error}:\n{text}") from error
        return names[re.search(r"^(?:def|class) (\w+)", text, re.M)[1]]

    @functools.cached_property
    def reference(self):
        """The right answer."""
        return self.made(self.text, f"{self.name}.md")

    @functools.cache  # noqa: B019  a sheet is kept as long as its exercise
    def pairs(self):
        """Two slips at once, wherever both can be made: (slip, slip, function or class).

        Not those that say that something is right: beside another slip it need not be.
        """
        edits = [
            s for s in self.slips if s.edits and not re.search(r"\b(is|are) right\b", s.message)
        ]
        made = []
        for pair in itertools.combinations(edits, 2):
            texts = {}  # in one order or the other; mostly they are the same
            for first, second in (pair, pair[::-1]):
                with contextlib.suppress(ValueError):  # the one has changed what the other changes
                    once = first.edit(self.text)
                    twice = second.edit(once)
                    if twice not in (once, self.text, second.edit(self.text)):
                        texts[twice] = None
            for text in texts:
                with contextlib.suppress(ValueError):  # together they are no code
                    made.append((*pair, self.made(text, pair[0].place)))
        return made


def read(name, namespace=None, within=()):
    """The Sheet of an exercise. namespace: where its code looks up what it does not define.
    within: the names of those that are being read, as this one's slips are taken over.

    Raises ValueError, with file and line, for what is not of the form above.
    """
    file = f"{name}.md"
    text = (FOLDER / file).read_text(encoding="utf-8")
    found = TITLE.match(text)
    if not found or found[1] != name:
        raise ValueError(f"{file}:1: no title, minutes, place to read and code of {name}")
    arguments = tuple(filter(None, found[2].split(", ")))
    sheet = Sheet(name, arguments, int(found[3]), found[4], found[5], namespace=namespace or {})
    line, heading, hints, slips = text[: found.end()].count("\n") + 1, "", [], []
    for entry in re.split(r"\n(?=- |## )", text[found.end() :]):
        if entry.startswith("## "):
            heading, _, stray = entry[3:].partition("\n")
            if stray.strip():
                raise ValueError(f"{file}:{line + 1}: neither a slip nor a hint: {stray.strip()}")
        elif heading == "Hints":
            hints.append(" ".join(entry[2:].split()))
        elif entry.strip():
            slips += _slips(sheet, entry, heading, f"{file}:{line}", (*within, name))
        line += entry.count("\n") + 1
    sheet.hints, sheet.slips = tuple(hints), tuple(slips)
    twice = [slip for slip in slips if [other.id for other in slips].count(slip.id) > 1]
    if twice:
        raise ValueError(f"{twice[-1].place}: {twice[-1].id} is there twice")
    return sheet


def _slips(sheet, entry, heading, place, within):
    """The slips of one entry: its own, or those of another file."""
    head, _, rest = entry.partition("\n")
    if same := SAME.fullmatch(head):
        return _taken_over(sheet, same, place, within)
    found = HEAD.fullmatch(head)
    stray = [line for line in rest.splitlines() if line and not re.match("  [^-]", line)]
    if stray:
        raise ValueError(f"{place}: what belongs to a slip stands below it, indented: {stray[0]}")
    if not found or not heading:
        raise ValueError(f"{place}: no slip of the form «- id: `right` → `wrong`» with a heading")
    fenced, message, seen = re.fullmatch(
        r"(?:  ```python\n((?:.*\n)+?)  ```\n)?\s*(.*?)\s*(?:<(https:\S+)>)?\s*", rest, re.S
    ).groups()
    code = "\n".join(line[2:] for line in (fenced or "").splitlines()) or found["code"] or ""
    edits = tuple((m["old"], m["new"] or "") for m in re.finditer(EDIT, head))
    forms = bool(fenced) + bool(found["code"]) + bool(edits)
    if forms != 1 or not message or "```" in message or re.search(EDIT, message):
        raise ValueError(f"{place}: {found['id']} needs edits or code, once, and words below it")
    slip = Slip(
        found["id"],
        " ".join(message.split()),
        heading,
        sheet,
        place,
        edits,
        code,
        bool(found["convention"]),
        seen or "",
        found["title"] or "",
    )
    slip.edit(sheet.text)
    return [slip]


def _taken_over(sheet, same, place, within):
    """Slips of another file, with some words changed: they edit this sheet's text."""
    if same["name"] in within or not (FOLDER / f"{same['name']}.md").is_file():
        raise ValueError(f"{place}: no other file {same['name']}.md to take slips from")
    others = {slip.id: slip for slip in read(same["name"], within=within).slips}
    pairs = re.findall(r"(\w+) for (\w+)", same["words"] or "")

    def in_other_words(text):
        for new, old in pairs:
            text = re.sub(rf"\b{old}(?![a-z])" if len(old) == 1 else old, new, text)
        return text

    made = []
    for name in same["ids"].split(", "):
        if name not in others:
            raise ValueError(f"{place}: {same['name']}.md has no {name}")
        slip = others[name]
        edits = tuple(tuple(map(in_other_words, edit)) for edit in slip.edits)
        code, message = in_other_words(slip.code), in_other_words(slip.message)
        slip = dataclasses.replace(
            slip, sheet=sheet, place=place, edits=edits, code=code, message=message
        )
        slip.edit(sheet.text)
        made.append(slip)
    return made


def exercise(name, namespace, **rest):
    """The Exercise of a name: what its Markdown file says, and what only code can say.

    namespace: where the file's code looks up its names. rest: cases, properties, call and the like.
    """
    sheet = read(name, namespace)
    return Exercise(
        name=name,
        arguments=sheet.arguments,
        reference=sheet.reference,
        mistakes=sheet.slips,
        hints=sheet.hints,
        minutes=sheet.minutes,
        read=sheet.read,
        solution=sheet.text,
        pairs=sheet.pairs,
        **rest,
    )
