"""What the handouts hold and what they keep back. How they look is tested in a browser."""

import base64
import io
import re
import shutil

import nbformat
import pytest
from course import BANK, NOTEBOOKS, ROOT, read, tags

from course_utils.exercises import load

pytest.importorskip("ziamath", reason="the handouts need ziamath: make test-teaching")
import handout
import notes
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from refresh import client

SHORTEST = 20  # characters of a line that tells something


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem[:2])
def notebook(request):
    return read(request.param)


def telling(notebook):
    """The lines of solutions and hints that stand nowhere else in the notebook."""
    lines = set()
    for name in re.findall(r'^help_with\("(\w+)"\)', "\n".join(sources(notebook)), re.M):
        exercise = load(name)
        lines |= {line.partition("  #")[0].strip() for line in exercise.solution.splitlines()}
        lines |= {plain(hint) for hint in exercise.hints}
    others = [cell for cell in notebook.cells if not tags(cell) & {"help", "ours"}]
    elsewhere = "\n".join(cell.source for cell in others)
    return {line for line in lines if len(line) >= SHORTEST and line not in elsewhere}


def leaks(text, notebook):
    return {line for line in telling(notebook) if line in text}


def sources(notebook):
    return [cell.source for cell in notebook.cells]


def plain(markdown):
    return markdown.replace("`", "")


def words(page):
    """The words of an HTML page, code and folded text too."""
    return BeautifulSoup(page, "html.parser").body.get_text()


def markdown(source, *tags):
    return nbformat.v4.new_markdown_cell(source, metadata={"tags": list(tags)})


def code(source, *tags, **metadata):
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags), **metadata})


def made(*cells):
    return nbformat.v4.new_notebook(cells=[markdown("# 42 · A title"), *cells])


# --- all notebooks


def test_no_solution_and_no_hint_reaches_the_student(notebook):
    assert leaks(plain(handout.to_work_in(notebook)), notebook) == set()
    assert leaks(words(handout.to_follow(notebook)), notebook) == set()


def test_the_teacher_has_them_all(notebook):  # so the test above would see them
    assert leaks(words(handout.to_teach(notebook)), notebook) == telling(notebook)


def test_no_claim_that_answers_is_on_paper(notebook):
    page = words(handout.to_follow(notebook))
    for cell in notebook.cells:
        if cell.cell_type == "code" and tags(cell) & {"answer", "ours"}:
            for sentence in re.findall(r'claim\("([^"]+)"', cell.source):
                assert sentence not in page


def test_an_exam_has_the_questions_and_nothing_for_the_teacher():
    bank = read(BANK)
    page, whole = words(handout.to_follow(bank)), words(handout.to_teach(bank))
    for cell in bank.cells:
        if cell.source.startswith("### "):
            assert cell.source.partition("\n")[0][4:] in page
    for said in ("Marking.", "For teachers", "claim(", "Run this first"):
        assert said in whole and said not in page


def test_most_notebooks_have_something_to_keep_back():
    assert sum(len(telling(read(path))) > 3 for path in NOTEBOOKS) >= 8


def test_the_students_notebook_has_no_outputs_and_nothing_for_the_teacher(notebook):
    student = nbformat.reads(handout.to_work_in(notebook), as_version=4)
    nbformat.validate(student)
    assert not [cell for cell in student.cells if cell.get("outputs")]
    assert not [cell for cell in student.cells if "help" in tags(cell)]
    kept = [source for source in sources(notebook) if "predict(" in source]
    assert [source for source in sources(student) if "predict(" in source] == kept


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course without notebooks."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "course_utils", folder / "course_utils")
    (folder / "notebooks").mkdir()
    return folder


def test_the_students_notebook_runs_in_the_place_of_the_courses_own(notebook, course):
    student = nbformat.reads(handout.to_work_in(notebook), as_version=4)
    client(student, course / "notebooks").execute()


def test_a_page_has_the_notebooks_title_and_is_small(notebook):
    title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    for page in (handout.to_follow(notebook), handout.to_teach(notebook)):
        assert BeautifulSoup(page, "html.parser").title.text == title
        assert len(page.encode()) < 3e6


# --- made notebooks


@pytest.mark.parametrize("tag", ["ours", "help", "reply"])
def test_what_answers_is_the_teachers(tag):
    notebook = made(markdown("It is 42.", tag), code("print(1)"))
    assert "It is 42." not in handout.to_work_in(notebook) + handout.to_follow(notebook)
    assert "It is 42." in handout.to_teach(notebook)


def test_an_answer_to_a_prediction_is_not_on_paper_and_stays_to_work_in():
    notebook = made(code("my_guess = None\npredict(my_guess)"), code("print(42)", "answer"))
    assert "print(42)" not in words(handout.to_follow(notebook))
    assert "print(42)" in words(handout.to_teach(notebook))
    assert "print(42)" in handout.to_work_in(notebook)


def test_the_list_of_claims_is_not_on_paper():
    notebook = made(
        markdown("Kept.\n\n## What holds?"), code("from course_utils import recap\n\nrecap()")
    )
    page = words(handout.to_follow(notebook))
    assert "Kept." in page and "What holds" not in page and "recap" not in page


def test_notes_are_the_teachers_and_say_the_keys_and_the_time(tmp_path, monkeypatch):
    cells = [markdown(f"A {kind}") for kind in ("slide", "fragment", "subslide", "slide")]
    for cell in cells:
        cell.metadata["slideshow"] = {"slide_type": cell.source[2:]}
    minutes = zip([cells[0], *cells[2:]], (2, 3, 4), strict=True)
    text = [f"## A\n\n`{cell.id}` · {m} minutes\n\n**Ask:** Who?\n\n" for cell, m in minutes]
    (tmp_path / "42.md").write_text("".join(text), encoding="utf-8")
    monkeypatch.setattr(notes, "FOLDER", tmp_path)
    page = BeautifulSoup(handout.to_teach(made(*cells)), "html.parser")
    shown = [one.text.strip().removesuffix("\nAsk: Who?") for one in page.select(".jp-Cell")[1:]]
    assert shown[:3] == ["A slide", "In class · → · 2 minutes (2 so far)", "A fragment"]
    assert shown[4] == "In class · Space · 3 minutes (5 so far, with all above)"
    assert shown[6] == "In class · → · 4 minutes (6 so far)"
    assert page.text.count("Who?") == 3
    assert "Who?" not in handout.to_work_in(made(*cells)) + handout.to_follow(made(*cells))


def test_there_is_room_for_a_guess_on_the_students_page_alone():
    notebook = made(code("my_guess = None\npredict(my_guess)"), code("print(1)"))
    assert words(handout.to_follow(notebook)).count("My guess:") == 1
    assert "My guess:" not in words(handout.to_teach(notebook))


def test_an_aside_is_open_on_paper_and_a_quiz_is_closed():
    aside, choice = (f"<details><summary>{s}</summary>\n\nx\n\n</details>\n" for s in "ab")
    page = handout.to_follow(made(markdown(f"{aside}\n## Quiz: which?\n\n{choice}")))
    found = BeautifulSoup(page, "html.parser").select("details")
    assert [(d.summary.text, d.has_attr("open")) for d in found] == [("a", True), ("b", False)]


def test_a_formula_becomes_mathml_in_a_font_that_has_its_letters():
    page = handout.to_follow(made(markdown(r"Of $x$: $$\sqrt{x^2} = \lVert x\rVert$$")))
    soup = BeautifulSoup(page, "html.parser")
    assert [m["display"] for m in soup.select("math")] == ["inline", "block"]
    assert "$" not in soup.main.text and "\\" not in soup.main.text
    font = re.search(r"data:font/woff;base64,([^\"]*)", page)[1]
    letters = TTFont(io.BytesIO(base64.b64decode(font))).getBestCmap()
    assert {ord(c) for c in "√‖2𝑥"} <= letters.keys()
    assert ord("𝑧") not in letters


def test_a_formula_is_as_mathematics_writes_it():
    assert handout.formula("(2, -4)", "inline").count('<mo form="prefix">&#x02212;') == 1
    assert "prefix" not in handout.formula("2 - 4 + (a) - b", "inline")
    assert 'stretchy="false">&#x02016;' in handout.formula(r"\lVert y\rVert", "inline")
    assert "<mo>&#x02032;</mo>" in handout.formula("f'", "inline")
    assert "&#x002C6;" in handout.formula(r"\hat x", "inline")


def test_a_link_to_a_notebook_leads_to_its_page():
    source = "[a](03_a_b.ipynb) [b](03_a_b.ipynb#c) [c](https://x.org/03_a.ipynb)"
    links = BeautifulSoup(handout.to_teach(made(markdown(source))), "html.parser").select("a")
    assert [a["href"] for a in links] == [
        "03_a_b.html",
        "03_a_b.html#c",
        "https://x.org/03_a.ipynb",
    ]


# --- the command


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_all_lessons_and_the_bank_are_written_unless_some_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CHROMIUM", "")
    handout.main([], tmp_path)
    pages = {
        f"{who}/{path.stem}.html" for who in ("student", "teacher") for path in [*NOTEBOOKS, BANK]
    }
    assert files(tmp_path) == pages | {f"student/{path.name}" for path in NOTEBOOKS}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "NotJSONError"),
        ("[]", "AttributeError"),
        (nbformat.writes(made(markdown("$\\foo{x}$"))), r"unknown command: \\foo"),
        (nbformat.writes(made(markdown("$x_1_2$"))), "DoubleSubscriptsError"),
    ],
)
def test_a_notebook_that_cannot_be_made_is_named(text, said, tmp_path, monkeypatch):
    monkeypatch.setenv("CHROMIUM", "")
    path = tmp_path / "odd.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=rf"odd\.ipynb: .*{said}"):
        handout.main([str(path)], tmp_path / "made")


@pytest.mark.parametrize(("named", "said"), [("", ""), ("false", "does not start as a browser.")])
def test_without_a_chromium_all_but_the_pdfs_is_written(named, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CHROMIUM", named)
    handout.main([str(NOTEBOOKS[0])], tmp_path)
    stem = NOTEBOOKS[0].stem
    assert files(tmp_path) == {
        f"student/{stem}.ipynb",
        f"student/{stem}.html",
        f"teacher/{stem}.html",
    }
    out = capsys.readouterr().out
    assert said in out and "There will be no PDF" in out


def test_what_is_no_notebook_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"README\.md is no notebook"):
        handout.main(["README.md"], tmp_path)


def test_a_chromium_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CHROMIUM", "nowhere")
    with pytest.raises(SystemExit, match="CHROMIUM=nowhere: there is no such program"):
        handout.main([str(NOTEBOOKS[0])], tmp_path)
