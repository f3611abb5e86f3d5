"""The question bank: its form and its marks, and nothing in it that its answers do not run."""

import ast
import itertools
import re
from typing import NamedTuple

import pytest
import test_notebooks as rules
from course import BANK, NOTEBOOKS, code_cells, read, tags, texts

QUESTION = re.compile(r"### (\d\d\.\d) · (.+) \((\d) marks\)\n\n(.+)", re.S)
OPENING = 4  # cells before the first section: title, setup, a word to teachers, imports


class Question(NamedTuple):
    """A question, taken apart. asked and marking are Markdown, answer is a code cell."""

    section: str  # its line, without ##
    number: str
    title: str
    marks: int
    asked: str
    answer: dict
    marking: str


def taken_apart(cells):
    """The Questions below the opening cells. ValueError: which cell is not what it should be."""
    found, section, cells = [], None, iter(cells)
    for cell in cells:
        if cell.source.startswith("## "):
            section = cell.source.removeprefix("## ")
            continue
        parts = QUESTION.fullmatch(cell.source)
        if cell.cell_type != "markdown" or tags(cell) or not parts:
            raise ValueError(f"neither a section nor a question: {cell.source}")
        answer, marking = next(cells, None), next(cells, None)
        if not answer or answer.cell_type != "code" or tags(answer) != {"answer"}:
            raise ValueError(f"{parts[1]} has no answer below it")
        if not marking or marking.cell_type != "markdown" or tags(marking) != {"answer"}:
            raise ValueError(f"{parts[1]} has no marking below its answer")
        number, title, marks, asked = parts.groups()
        found.append(Question(section, number, title, int(marks), asked, answer, marking.source))
    return found


QUESTIONS = taken_apart(read(BANK).cells[OPENING:])
each_question = pytest.mark.parametrize("q", QUESTIONS, ids=[q.number for q in QUESTIONS])


# --- its form


@pytest.mark.parametrize(
    "rule",
    [
        rules.test_each_cell_was_run_once_in_order,
        rules.test_nothing_was_stripped,
        rules.test_no_error_and_nothing_on_stderr_is_stored,
        rules.test_metadata_is_minimal_and_no_widget_is_stored,
        rules.test_an_ignored_output_has_a_reason_and_holds_no_claim,
        rules.test_the_setup_cell_is_everywhere_the_same,
        rules.test_links_say_where_they_lead,
        rules.test_pages_that_draw_only_plain_html_show_everything,
        rules.test_spelling_is_british,
        rules.test_each_link_within_the_course_leads_somewhere,
        rules.test_each_claim_is_a_sentence_on_one_line,
        rules.test_what_answers_is_folded_and_nothing_else,
    ],
)
def test_it_keeps_a_rule_of_the_notebooks(rule):
    rule(BANK)


def test_it_opens_with_a_title_the_setup_and_all_imports():
    title, setup, intro, imports = read(BANK).cells[:OPENING]
    assert title.source.startswith("# Question bank\n\n")
    assert tags(setup) == {"setup"} and tags(intro) == {"reply"} and tags(imports) == {"answer"}
    assert all(isinstance(n, ast.Import | ast.ImportFrom) for n in ast.parse(imports.source).body)
    for q in QUESTIONS:
        assert "import " not in q.answer.source, q.number


def test_each_notebook_but_the_first_has_a_section_of_two_or_three_questions():
    titles = [read(path).cells[0].source.partition("\n")[0][2:] for path in NOTEBOOKS[1:]]
    sections = itertools.groupby(QUESTIONS, key=lambda q: q.section)
    found = {section: [q.number for q in questions] for section, questions in sections}
    assert list(found) == titles
    for title, numbers in found.items():
        assert len(numbers) in (2, 3)
        assert numbers == [f"{title[:2]}.{i + 1}" for i in range(len(numbers))]


def test_a_cell_out_of_place_is_found():
    whole = read(BANK).cells[OPENING:]
    for at, said in [(1, "neither"), (2, "01.1 has no answer"), (3, "01.1 has no marking")]:
        with pytest.raises(ValueError, match=said):
            taken_apart(whole[:at] + whole[at + 1 :])
    with pytest.raises(ValueError, match="has no marking"):
        taken_apart(whole[:-1])


@each_question
def test_a_question_fits_an_exam(q):
    assert len(q.asked.split()) <= 85 and len(q.title) <= 40
    assert len(q.answer.source.splitlines()) <= 15
    assert len(q.marking.split()) <= 50
    assert rules.calls(q.answer.source, "claim"), "nothing is checked"
    assert not rules.calls(q.answer.source, "predict")


# --- its marks


def given(marking):
    """The marks that a marking gives, one by one: "1 for the RMS; 2 for …" gives 1 and 2."""
    return [int(n) for n in re.findall(r"(?<![\w.,−–-])(\d) for\b", marking)]


@each_question
def test_the_marks_of_a_question_add_up(q):
    assert q.marking.startswith("**Marking.** ") and sum(given(q.marking)) == q.marks


def test_the_title_counts_the_questions_and_the_marks():
    counted = f"{len(QUESTIONS)} questions, {sum(q.marks for q in QUESTIONS)} marks in all"
    assert counted in read(BANK).cells[0].source


def test_what_is_no_mark_is_not_counted():
    marking = "**Marking.** 1 for 0.78; 2 for A. −0.238 for B: no 1. 12 for C, 3.1 for D."
    assert given(marking) == [1, 2]


# --- what it says is run


@each_question
def test_each_number_of_a_question_is_in_its_answer(q):
    evidence = "\n".join([q.answer.source, *texts(q.answer)])
    assert rules.loose_numbers(q.asked + q.marking, evidence) == set()


def not_run(asked, source):
    """The lines of code shown in a question that its answer does not have."""
    shown = "\n".join(re.findall(r"```python\n(.*?)```", asked, re.S))
    lines = [re.sub(r"\s+# .*", "", line) for line in shown.splitlines()]
    return [line for line in lines if line not in source]


@each_question
def test_the_code_of_a_question_is_the_code_that_is_run(q):
    assert not_run(q.asked, q.answer.source) == []


def test_code_that_is_not_run_would_be_found():
    asked = "Look:\n```python\na = 1\nb = a + 1  # (D,)\n```\nWhat is b?"
    assert not_run(asked, "a = 1\nb = a + 1\nprint(b)") == []
    assert not_run(asked, "a = 1\nb = a + 2") == ["b = a + 1"]
    assert any("```python" in q.asked for q in QUESTIONS)


def expected_by_library(source, library):
    """What near and same expect, where that calls one of the library's names."""
    for call in [*rules.calls(source, "near"), *rules.calls(source, "same")]:
        if any(isinstance(n, ast.Name) and n.id in library for n in ast.walk(call.args[1])):
            yield ast.unparse(call)


@each_question
def test_no_answer_expects_what_the_library_itself_says(q):
    assert list(expected_by_library(q.answer.source, helper())) == []


def helper():
    """The names that the bank imports from course_utils."""
    nodes = ast.parse(code_cells(BANK)[1].source).body
    ours = [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module[:12] == "course_utils"]
    return {alias.name for n in ours for alias in n.names} - {"claim", "near", "same"}


def test_an_answer_that_expects_the_library_would_be_found():
    assert "rms_norm" in helper()
    assert list(expected_by_library("near(rms_norm(x), 2)\nsame(silu(x), y)", helper())) == []
    for wrong in ("near(y, rms_norm(x))", "same(y, [silu(x)])"):
        assert list(expected_by_library(wrong, helper())) == [wrong]


NUMBER = r"[−-]?\d+(?:\.\d+)?"
LISTED = rf"{NUMBER}(?:, {NUMBER}){{2,}}"


def listed(text):
    """The lists of three numbers or more in a text, as tuples."""
    found = re.findall(LISTED, re.sub(r"(?<=\d)\.0\b", "", text.replace("−", "-")))
    return [tuple(float(n) for n in re.findall(NUMBER, one)) for one in found]


def loose_lists(text, evidence):
    def within(part, whole):
        return any(whole[i : i + len(part)] == part for i in range(len(whole)))

    known = listed(evidence)
    return [one for one in listed(text) if not any(within(one, whole) for whole in known)]


@each_question
def test_numbers_in_a_row_stand_in_the_answer_in_that_order(q):
    evidence = "\n".join([q.answer.source, *texts(q.answer)])
    assert loose_lists(f"{q.asked}\n{q.marking}", evidence) == []


def test_numbers_in_another_order_are_found():
    assert loose_lists("(4, 16, 4, 16)", "[16.0, 4.0, 16.0, 4.0]") == [(4, 16, 4, 16)]
    assert loose_lists("(1, −1, 3)", "torch.tensor([1.0, -1.0, 3.0, 5.0])") == []
