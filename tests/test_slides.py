"""Each notebook is a lecture too: its slides, what is asked before what is told, and docs/notes.

That the slides fit the screen is tested where they are shown, in tests/teaching.
"""

import ast
import itertools
import re
from dataclasses import dataclass, field

import nbformat
import notes
import pytest
from course import NOTEBOOKS, ROOT, read, tags
from notes import slide_type
from test_notebooks import AMERICAN, calls, each_notebook

from course_utils import exercises, predictions

KINDS = {"slide", "subslide", "fragment", "skip"}
NOTES = {note["cell"]: note for note in notes.notes()}


@dataclass
class Slide:
    """What is on the screen at once: a slide, or one below it, with its fragments."""

    kind: str
    cells: list = field(default_factory=list)  # without what is skipped

    @property
    def note(self):
        return NOTES.get(self.cells[0].id)

    @property
    def code(self):
        return [cell for cell in self.cells if cell.cell_type == "code"]

    def calls(self, name):
        return [call for cell in self.code for call in calls(cell.source, name)]

    @property
    def minutes(self):
        """As its note says; without one it is 1, which the title and the last slide do not take."""
        return int(self.note["minutes"].split()[0]) if self.note else int(self.kind == "subslide")

    def asks(self):
        """Is there something for the room to do: a prediction, an explorer, a quiz, an exercise?"""
        return (
            self.calls("predict")
            or self.calls("check")
            or any("_explorer(" in cell.source or "## Quiz" in cell.source for cell in self.cells)
        )


def slides(cells):
    made = []
    for cell in cells:
        if slide_type(cell) in ("slide", "subslide"):
            made.append(Slide(slide_type(cell)))
        if slide_type(cell) != "skip":
            made[-1].cells.append(cell)
    return made


def short_path(cells):
    """The slides that → shows."""
    return [slide for slide in slides(cells) if slide.kind == "slide"]


@each_notebook
def test_each_cell_has_its_place_in_the_lecture(path):
    for cell in read(path).cells:
        assert set(cell.metadata.slideshow) == {"slide_type"}
        assert slide_type(cell) in KINDS, cell.source
        if "exercise" in tags(cell):
            assert slide_type(cell) in ("subslide", "fragment"), cell.source
        if tags(cell) & {"setup", "help"} or "recap()" in cell.source:
            assert slide_type(cell) == "skip", cell.source


@each_notebook
def test_the_lecture_begins_with_the_title_and_ends_with_what_comes_next(path):
    shown = slides(read(path).cells)
    assert shown[0].kind == shown[-1].kind == "slide"
    assert shown[0].cells[0].source.startswith("# ")
    assert shown[-1].cells[0] == read(path).cells[-1]


def unreached(cells):
    """Slides that ↓ passes over: jupyterlab-deck 0.2.0 does so with a lone cell above another."""
    pairs = itertools.pairwise(slides(cells))
    return [a for a, b in pairs if a.kind == b.kind == "subslide" and len(a.cells) < 2]


@each_notebook
def test_each_slide_is_reached(path):
    assert not unreached(read(path).cells)


def test_a_slide_that_is_not_reached_is_found():
    def cells(*kinds):
        made = [nbformat.v4.new_markdown_cell(kind) for kind in kinds]
        for cell, kind in zip(made, kinds, strict=True):
            cell.metadata.slideshow = nbformat.from_dict({"slide_type": kind})
        return made

    assert not unreached(cells("slide", "subslide", "fragment", "subslide", "slide"))
    assert len(unreached(cells("slide", "subslide", "skip", "subslide", "slide"))) == 1


@each_notebook
def test_a_prediction_comes_after_its_question_and_before_its_answer(path):
    shown = [cell for slide in slides(read(path).cells) for cell in slide.cells]
    for slide in slides(read(path).cells):
        for cell in slide.code:
            if calls(cell.source, "predict"):
                at = shown.index(cell)
                assert slide.cells[0].cell_type == "markdown" and "?" in slide.cells[0].source
                assert slide_type(cell) == "fragment" and shown[at - 1] in slide.cells
                answer = next(c for c in shown[at + 1 :] if c.cell_type == "code")
                assert "answer" in tags(answer) and slide_type(answer) != "skip"
    asked = [c for c in read(path).cells if c.cell_type == "code" and calls(c.source, "predict")]
    assert all(cell in shown for cell in asked), "a prediction is skipped"


@each_notebook
def test_what_answers_waits_for_a_key(path):
    for slide in slides(read(path).cells):
        for cell in slide.cells[1:]:
            assert slide_type(cell) == "fragment", cell.source


@each_notebook
def test_solutions_are_not_shown(path):
    for cell in read(path).cells:
        if cell.cell_type == "code" and calls(cell.source, "help_with"):
            assert slide_type(cell) == "skip"


# --- the notes


def without_slide(found, cells):
    """Notes that have lost their slide: none begins with their cell, or it has other words now."""
    words = {slide.cells[0].id: slide.cells[0].source for slide in slides(cells)}
    return [n[0] for n in found if n["slide"] not in words.get(n["cell"], "")]


@each_notebook
def test_each_note_has_its_slide_in_the_order_of_the_slides(path):
    cells, found = read(path).cells, notes.notes(path.name[:2])
    title = cells[0].source.partition("\n")[0][2:]
    text = (notes.FOLDER / f"{path.name[:2]}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# [{title}](../../notebooks/{path.name})\n\n## ")
    assert not without_slide(found, cells), f"in docs/notes/{path.name[:2]}.md"
    shown = [slide.cells[0].id for slide in slides(cells) if slide.note]
    assert [note["cell"] for note in found] == shown


def test_a_note_that_has_lost_its_slide_is_found():
    cells, found = read(NOTEBOOKS[0]).cells, notes.notes("00")
    assert without_slide(found, cells) == []
    cells.remove(next(cell for cell in cells if cell.id == found[0]["cell"]))
    next(cell for cell in cells if cell.id == found[1]["cell"]).source = "Other words"
    assert without_slide(found, cells) == [found[0][0], found[1][0]]


@each_notebook
def test_notes_say_in_a_few_words_what_to_do(path):
    for words in [note["words"] for note in notes.notes(path.name[:2])]:
        assert "**Ask:**" in words or "**Then:**" in words
        assert len(re.sub(r"\*\*They answer:.*", "", words).split()) <= 64, words
        assert not re.search(AMERICAN, re.sub("`[^`]*`", "", words)), words


@each_notebook
def test_each_slide_of_the_short_path_has_a_note_and_each_question_too(path):
    shown = slides(read(path).cells)
    for slide in shown[1:-1]:
        if slide.kind == "slide" or slide.asks():
            assert slide.note, slide.cells[0].source
    assert not shown[-1].note


@each_notebook
def test_a_note_knows_likely_wrong_answers(path):
    """Those of its slide's predictions, and those to ask back, also of exercises."""
    asked_back = 0
    for slide in slides(read(path).cells):
        words, known = slide.note["words"] if slide.note else "", []
        for call in slide.calls("predict"):
            wrong = [*map(str, predictions.REASONS[ast.literal_eval(call.args[2])])]
            likely = words.partition("**Likely:**")[2].partition("\n")[0]
            assert any(guess in likely for guess in wrong), (likely, wrong)
            known += wrong
        for call in slide.calls("check"):
            exercise = exercises.load(ast.literal_eval(call.args[0]))
            known += [mistake.id for mistake in exercise.mistakes]
        answers = re.findall(r"\*\*They answer:\*\* .*`(.+)`\. \*\*Ask back:", words)
        assert len(answers) == words.count("**They answer:") and {*answers} <= {*known}, words
        asked_back += len(answers)
    assert asked_back >= 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("3 minutes", "1 minutes"),
        (" · 3 minutes", ""),
        ("**Ask:** who?\n\n**Then:** run.", "**Then:** run.\n\n**Ask:** who?"),
        ("**Ask:** who?", "Who?"),
        ("**Then:**", "**They answer:** `2`.\n\n**Then:**"),
    ],
)
def test_a_note_of_another_form_is_named(old, new):
    text = "## A slide\n\n`0a` · 3 minutes\n\n**Ask:** who?\n\n**Then:** run.\n"
    assert notes.parsed(text)
    with pytest.raises(ValueError, match="A slide"):
        notes.parsed(text.replace(old, new))


# --- the paths that docs/teaching.md offers

GUIDE = ROOT / "docs" / "teaching.md"
ROW = re.compile(r"^\| (\d\d · [^|]*) \|((?: *[\d–]+ *\|)+)$", re.M)


def rows():
    """title -> the minutes in its row of the guide's table of paths; – is no number."""
    return {
        title: [int(c) if c.strip().isdigit() else None for c in cells.strip("|").split("|")]
        for title, cells in ROW.findall(GUIDE.read_text(encoding="utf-8"))
    }


def test_the_paths_take_the_minutes_of_their_notes():
    found = rows()
    titles = [read(path).cells[0].source.partition("\n")[0][2:] for path in NOTEBOOKS]
    assert [*found] == titles
    assert len([*notes.FOLDER.iterdir()]) == len(NOTEBOOKS), "notes of no notebook"
    for path, title in zip(NOTEBOOKS, titles, strict=True):
        short = sum(slide.minutes for slide in short_path(read(path).cells))
        whole = sum(slide.minutes for slide in slides(read(path).cells))
        in_50, in_120, all_of_it = found[title]
        assert {in_50, in_120} <= {None, short} and all_of_it == whole, (title, short, whole)
    sums = [sum(row[i] or 0 for row in found.values()) for i in range(3)]
    assert f"| together | {' | '.join(map(str, sums))} |" in GUIDE.read_text(encoding="utf-8")
    assert sums[0] <= 40 and sums[1] <= 100, "no time for questions, and in two hours for a break"
