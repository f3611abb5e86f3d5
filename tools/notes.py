"""The teacher's notes, in docs/notes: one file a notebook, one section a slide."""

import re

from nbformat.v4 import new_markdown_cell
from refresh import ROOT

FOLDER = ROOT / "docs" / "notes"
SECTION = re.compile(
    r"## (?P<slide>.+)\n\n"  # words of the slide's first cell, and its id
    r"`(?P<cell>\w+)` · (?P<minutes>1 minute|[2-9] minutes|[1-9]\d minutes)\n\n"
    r"(?P<words>(\*\*Ask:\*\* .+\n\n)?(\*\*Likely:\*\* .+\n\n)?"
    r"(\*\*They answer:\*\* .+ \*\*Ask back:\*\* .+[?.]\n\n)*(\*\*Then:\*\* .+\n\n)?)"
)


def notes(number="*"):
    """The notes of a notebook, or of all, as SECTION's matches. ValueError: what is no note."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob(f"{number}.md"))]
    return [parsed(s) for text in texts for s in re.split("^(?=## )", text, flags=re.M)[1:]]


def parsed(section):
    found = SECTION.fullmatch(section.rstrip("\n") + "\n\n")
    if not found:
        raise ValueError(f"not the form of a note, see docs/contributing.md: {section}")
    return found


def slide_type(cell):
    return cell.metadata.get("slideshow", {}).get("slide_type")


def with_notes(notebook, resources):
    """Put each note below its slide's first cell, with the key to there and the minutes so far."""
    found = {note["cell"]: note for note in notes()}
    key, short, whole, cells = "→", 0, 0, []
    for cell in notebook.cells:
        cells.append(cell)
        key = {"slide": "→", "subslide": "Space"}.get(slide_type(cell), key)
        if note := found.get(cell.get("id")):
            minutes = int(note["minutes"].split()[0])
            short, whole = short + minutes * (key == "→"), whole + minutes
            so_far = f"{short} so far" if key == "→" else f"{whole} so far, with all above"
            said = f"**In class · {key} · {note['minutes']} ({so_far})**\n\n{note['words']}"
            cells.append(new_markdown_cell(said, metadata={"tags": ["notes"]}))
    notebook.cells = cells
    return notebook, resources
