"""Photograph the notebooks as JupyterLab shows them: python tools/look.py [notebook ...]

Into the folder `look`: each notebook from top to bottom, and its explorer in the default state and
in each preset, in the light and in the dark theme; and its slides, each with all its fragments.
What no test can do is to look.
"""

import io
import sys
from dataclasses import replace
from pathlib import Path

import lecture
from chromium import LAB, ROOT, OpenNotebook, ShownDeck, browser, server
from PIL import Image

FOLDER = ROOT / "look"


def look(opened, stem):
    """Photograph one notebook and its explorer."""
    opened.run_all()
    for theme in ("light", "dark"):
        opened.dark(theme == "dark")
        opened.stretch()
        photograph(opened.page.locator(LAB.content)).save(FOLDER / f"{stem}_{theme}.png")
        states(opened).save(FOLDER / f"{stem}_explorer_{theme}.png")


def states(opened):
    """The explorer's states, one below the other. Reset comes first: it is the default state."""
    explorer = opened.explorer()
    output = opened.page.locator(".jp-OutputArea", has=explorer.picture)
    *presets, reset = explorer.controls.locator(".widget-hbox").last.get_by_role("button").all()
    pictures = []
    for button in (reset, *presets):
        button.press("Enter")
        opened.page.wait_for_timeout(300)
        pictures.append(photograph(output))
    sheet = Image.new("RGB", (pictures[0].width, sum(p.height for p in pictures)), "white")
    top = 0
    for picture in pictures:
        sheet.paste(picture, (0, top))
        top += picture.height
    return sheet


def look_at_slides(opened, folder):
    """Photograph the slides of one notebook."""
    folder.mkdir(exist_ok=True)
    deck = ShownDeck(opened)
    deck.run_all()
    for place, shown in enumerate(deck.walk("Space")):
        if not shown["waiting"]:
            opened.page.screenshot(path=folder / f"{place:02}.png")


def photograph(element):
    return Image.open(io.BytesIO(element.screenshot(animations="disabled")))


def main(arguments):
    paths = [Path(a).resolve() for a in arguments] or sorted((ROOT / "notebooks").glob("*.ipynb"))
    FOLDER.mkdir(exist_ok=True)
    with server(LAB, ROOT) as served, browser() as chrome:
        for path in paths:
            opened = OpenNotebook(chrome, served, path.relative_to(ROOT).as_posix())
            look(opened, path.stem)
            opened.close()
            print(f"{FOLDER.name}/{path.stem}_*.png")
    lecture.copies(FOLDER)
    front = replace(LAB, settings=lecture.SETTINGS, style=lecture.STYLE)
    with server(front, FOLDER) as served, browser() as chrome:
        for path in paths:
            opened = OpenNotebook(chrome, served, path.name)
            look_at_slides(opened, FOLDER / f"{path.stem}_slides")
            opened.close()
            print(f"{FOLDER.name}/{path.stem}_slides/*.png")


if __name__ == "__main__":
    main(sys.argv[1:])
