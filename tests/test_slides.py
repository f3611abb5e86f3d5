"""Each notebook is a lecture too: its slides, what is asked before what is told, and the notes.

That the slides fit the screen is tested where they are shown, in tests/teaching.
"""

import ast
import itertools
import re
from dataclasses import dataclass, field

import nbformat
import pytest
from course import NOTEBOOKS, ROOT, read, tags
from lecture import slide_type
from test_notebooks import calls, each_notebook

from course_utils import exercises, predictions

KINDS = {"slide", "subslide", "fragment", "notes", "skip"}
NOTES = re.compile(
    r"<details><summary>In class · (1 minute|[2-9] minutes|\d\d minutes)</summary>\n\n"
    r"(\*\*Ask:\*\* .+\n\n)?(\*\*Likely:\*\* .+\n\n)?(\*\*Then:\*\* .+\n\n)?</details>"
)


@dataclass
class Slide:
    """What is on the screen at once: a slide, or one below it, with its fragments and notes."""

    kind: str
    cells: list = field(default_factory=list)  # with the notes, without what is skipped

    @property
    def notes(self):
        return [cell for cell in self.cells if slide_type(cell) == "notes"]

    @property
    def code(self):
        return [cell for cell in self.cells if cell.cell_type == "code"]

    @property
    def minutes(self):
        """As its notes say; without notes one, which the title and the last slide do not take."""
        if self.notes or self.kind == "slide":
            return sum(int(NOTES.fullmatch(cell.source)[1].split()[0]) for cell in self.notes)
        return 1

    def asks(self):
        """Is there something for the room to do: a prediction, an explorer, a quiz, an exercise?"""
        called = any(calls(c.source, name) for c in self.code for name in ("predict", "check"))
        return called or any(
            "_explorer(" in cell.source or "## Quiz" in cell.source for cell in self.cells
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
        assert ("notes" in tags(cell)) == (slide_type(cell) == "notes"), cell.source
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
                before = [c for c in shown[:at] if slide_type(c) != "notes"]
                assert slide.cells[0].cell_type == "markdown" and "?" in slide.cells[0].source
                assert slide_type(cell) == "fragment" and before[-1] in slide.cells
                answer = next(c for c in shown[at + 1 :] if c.cell_type == "code")
                assert "answer" in tags(answer) and slide_type(answer) != "skip"
    asked = [c for c in read(path).cells if c.cell_type == "code" and calls(c.source, "predict")]
    assert all(cell in shown for cell in asked), "a prediction is skipped"


@each_notebook
def test_what_answers_waits_for_a_key(path):
    for slide in slides(read(path).cells):
        for cell in slide.cells[1:]:
            assert slide_type(cell) in ("fragment", "notes"), cell.source


@each_notebook
def test_solutions_are_not_shown(path):
    for cell in read(path).cells:
        if cell.cell_type == "code" and calls(cell.source, "help_with"):
            assert slide_type(cell) == "skip"


@each_notebook
def test_notes_say_what_to_ask_and_how_long_it_takes(path):
    for slide in slides(read(path).cells):
        for cell in slide.notes:
            assert NOTES.fullmatch(cell.source), cell.source
            assert "**Ask:**" in cell.source or "**Then:**" in cell.source
            assert len(cell.source.split()) <= 70, cell.source
            assert "$" not in cell.source, "not everywhere drawn within <details>"
            assert cell == slide.cells[1], "right after what they are about"
        assert len(slide.notes) <= 1


@each_notebook
def test_each_slide_of_the_short_path_has_notes_and_each_question_too(path):
    shown = slides(read(path).cells)
    for slide in shown[1:-1]:
        if slide.kind == "slide" or slide.asks():
            assert slide.notes, slide.cells[0].source
    assert not shown[-1].notes


@each_notebook
def test_the_notes_of_a_prediction_know_a_likely_wrong_answer(path):
    for slide in slides(read(path).cells):
        asked = [call for cell in slide.code for call in calls(cell.source, "predict")]
        for call in asked:
            wrong = predictions.REASONS[ast.literal_eval(call.args[2])]
            likely = slide.notes[0].source.partition("**Likely:**")[2]
            assert any(str(guess) in likely for guess in wrong), (likely, [*wrong])


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
    for path, title in zip(NOTEBOOKS, titles, strict=True):
        short = sum(slide.minutes for slide in short_path(read(path).cells))
        whole = sum(slide.minutes for slide in slides(read(path).cells))
        in_50, in_120, all_of_it = found[title]
        assert in_50 in (None, short) and in_120 in (None, short) and all_of_it == whole
    sums = [sum(row[i] or 0 for row in found.values()) for i in range(3)]
    assert f"| together | {sums[0]} | {sums[1]} | {sums[2]} |" in GUIDE.read_text(encoding="utf-8")
    assert sums[0] <= 40 and sums[1] <= 100, "no time for questions, and in two hours for a break"


def sections():
    """The guide's section on each notebook: number -> title, goals, and rows of answers."""
    text = GUIDE.read_text(encoding="utf-8")
    found = {}
    for title, body in re.findall(r"^### (\d\d · .+)\n((?:(?!^#).*\n)*)", text, re.M):
        lines = body.splitlines()
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
        goals = [line for line in lines if line.startswith("- ")]
        found[title[:2]] = title, goals, rows[1:]  # without the table's head
    return found


@each_notebook
def test_the_guide_has_the_notebooks_goals(path):
    source = read(path).cells[0].source.splitlines()
    title, goals, _ = sections()[path.name[:2]]
    assert source[0] == f"# {title}"
    assert goals == [line for line in source if line.startswith("- ")]


@each_notebook
def test_the_guides_answers_are_known_mistakes_of_its_notebook(path):
    _, _, rows = sections()[path.name[:2]]
    source = "\n".join(cell.source for cell in read(path).cells)
    assert len(rows) >= 3
    for asked, answer, back in rows:
        name, wrong = asked.strip("`"), answer.split("`")[-2]
        assert f'"{name}"' in source, name
        if asked.startswith("`"):
            assert wrong in [mistake.id for mistake in exercises.load(name).mistakes]
        else:
            assert wrong in map(str, predictions.REASONS[name])
        assert back.endswith(("?", ".")), back


@pytest.mark.parametrize(
    "notes",
    [
        "<details><summary>In class · 3 minutes</summary>\n\n**Ask:** who?\n\n</details>\n",
        "<details><summary>In class · 1 minutes</summary>\n\n**Ask:** who?\n\n</details>",
        "<details><summary>In class · 3 minutes</summary>\n**Ask:** who?\n</details>",
        "<details><summary>In class</summary>\n\n**Ask:** who?\n\n</details>",
        "**Ask:** who?",
    ],
)
def test_notes_of_another_form_are_found(notes):
    assert not NOTES.fullmatch(notes)
