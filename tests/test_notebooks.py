"""What nbval does not see: stripped or stale notebooks, loose numbers, missing words, pace."""

import ast
import itertools
import re

import links
import notes
import pytest
import refresh
from course import NOTEBOOKS, ROOT, code_cells, markdown_cells, read, run, tags, texts

from course_utils import exercises, predict, predictions

# Numbers in prose that come from elsewhere: notebook -> number -> where it is from.
CITED = {
    "01_rmsnorm_vs_layernorm.ipynb": {"2019": "the year of Zhang & Sennrich's paper"},
    "04_silu_and_swish.ipynb": {"2016": "the year of Hendrycks & Gimpel's paper"},
    "06_parameter_accounting.ipynb": {"2020": "the year of Shazeer's paper"},
}
IGNORED = {"09_what_it_costs.ipynb": {"timing"}}  # why nbval may ignore a cell's output there
AMERICAN = r"\b(\w{4,}iz(e|es|ed|ing|ation)|center\w*|behavior\w*|colors?|gray)\b"
LIBRARY = {"rms_norm", "layer_norm", "RMSNorm", "norm", "first_rms_norm"}


each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem[:2])


def test_the_series_is_numbered_without_a_gap():
    assert [path.name[:3] for path in NOTEBOOKS] == [f"{i:02}_" for i in range(len(NOTEBOOKS))]


# --- executed, and stored whole


@each_notebook
def test_each_cell_was_run_once_in_order(path):
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))


@each_notebook
def test_nothing_was_stripped(path):
    for cell in code_cells(path)[
        1:
    ]:  # the first is the setup cell, silent where nothing is missing
        speaks = re.search(
            r"^\s*(claim|print|show|predict|recap|check|help_with|\w+_explorer)\(",
            cell.source,
            re.M,
        )
        assert not speaks or cell.outputs, cell.source


@each_notebook
def test_no_error_and_nothing_on_stderr_is_stored(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr", cell.source


@each_notebook
def test_metadata_is_minimal_and_no_widget_is_stored(path):
    notebook = read(path)
    assert notebook.metadata == refresh.METADATA
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    for cell in notebook.cells:
        assert set(cell.metadata) <= refresh.CELL_METADATA
        assert refresh.VIEW not in str(cell.get("outputs"))


@each_notebook
def test_an_ignored_output_has_a_reason_and_holds_no_claim(path):
    for cell in read(path).cells:
        problem = ignored_wrongly(cell, IGNORED.get(path.name, set()))
        assert not problem, f"{problem}: {cell.source}"


def ignored_wrongly(cell, reasons):
    """What is wrong with a cell's nbval tags, or None. reasons: those its notebook may give."""
    given = tags(cell)
    if not any(tag.startswith("nbval") for tag in given) and "timing" not in given:
        return None
    if len(given) != 2 or "nbval-ignore-output" not in given or not given & reasons:
        return "only nbval-ignore-output, with a reason that its notebook may give"
    if not cell.get("outputs"):
        return "ignored, but no output is stored"
    said = ("claim", "predict", "recap")
    if any(calls(cell.source, name) for name in said):
        return "what is claimed must be compared"
    return None


@pytest.mark.parametrize(
    ("tags", "source", "reasons", "problem"),
    [
        ([], "1", set(), None),
        (["setup"], "1", set(), None),
        (["nbval-ignore-output", "timing"], "1", {"timing"}, None),
        (["nbval-ignore-output", "timing"], "1", set(), "only nbval-ignore-output"),
        (["nbval-ignore-output"], "1", {"timing"}, "only nbval-ignore-output"),
        (["nbval-skip", "timing"], "1", {"timing"}, "only nbval-ignore-output"),
        (["timing"], "1", {"timing"}, "only nbval-ignore-output"),
        (["nbval-ignore-output", "timing"], "claim('x', y)", {"timing"}, "must be compared"),
        (["nbval-ignore-output", "timing"], "", {"timing"}, "no output is stored"),
    ],
)
def test_a_cell_that_is_ignored_wrongly_would_be_found(tags, source, reasons, problem):
    outputs = [refresh.nbformat.v4.new_output("stream", text="1")] if source else []
    cell = refresh.nbformat.v4.new_code_cell(source, metadata={"tags": tags}, outputs=outputs)
    found = ignored_wrongly(cell, reasons)
    assert found is None if problem is None else problem in found


@each_notebook
def test_the_setup_cell_is_everywhere_the_same(path):
    first = code_cells(path)[0]
    assert first.metadata.tags == ["setup"]
    assert first.source == links.setup_cell(links.address())
    assert first.outputs == []


# --- how it reads


@each_notebook
def test_one_title_with_the_notebooks_number_and_no_skipped_level(path):
    lines = "\n".join(cell.source for cell in markdown_cells(path)).splitlines()
    headings = [line for line in lines if re.match(r"#+ ", line)]
    assert headings[0].startswith(f"# {path.name[:2]} · ")
    levels = [heading.index(" ") for heading in headings]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


@each_notebook
def test_the_pace_is_kept(path):
    """Exercises have a measure of their own, below."""
    cells = [c for c in read(path).cells if not tags(c) & {"exercise", "help"}]
    words = sum(len(c.source.split()) for c in cells if c.cell_type == "markdown")
    assert len(cells) <= 50 and words <= 1000
    for cell in code_cells(path)[1:]:  # the first is the setup cell
        assert len(cell.source.splitlines()) <= 15, cell.source


@each_notebook
def test_something_is_seen_within_the_first_words(path):
    words = 0
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            words += len(cell.source.split())
        elif cell.get("outputs"):
            break
    assert words <= 170, "title, aims and first question come to that; the first output is later"


@each_notebook
def test_each_picture_says_what_to_see(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            data = output.get("data", {})
            if any(kind.startswith("image/") for kind in data):
                words = data["text/plain"]
                assert len(words) >= 80 and words.endswith("."), words
                assert "Figure size" not in words


@each_notebook
def test_below_each_picture_words_can_be_seen(path):
    """JupyterLab and GitHub give a picture no other words than these."""
    for cell in code_cells(path):
        for picture, below in itertools.pairwise([*cell.outputs, {}]):
            if any(kind.startswith("image/") for kind in picture.get("data", {})):
                assert len(below["data"]["text/markdown"]) >= 60, cell.source


@each_notebook
def test_links_say_where_they_lead(path):
    for cell in markdown_cells(path):
        links = re.findall(r"\[([^\]]+)\]\(\S+?\)|<a [^>]*>(.*?)</a>", cell.source)
        for words in itertools.chain(*links):
            assert not words or names_its_target(words), words


EMPTY = {
    *("a", "click", "code", "here", "info", "it", "its", "link", "more"),
    *("of", "on", "page", "read", "see", "source", "the", "this"),
}


def names_its_target(words):
    """A name, or several words; of which some are not in EMPTY."""
    words = words.strip(".").split()
    named = any(re.search(r"\w[A-Z.-]|[A-Z]\w", word) or word == "xformers" for word in words)
    return (named or len(words) > 1) and any(word.lower() not in EMPTY for word in words)


@pytest.mark.parametrize(
    "words",
    ["here", "its code", "2016", "config", "see it here", "Click here", "More", "Read more."],
)
def test_a_link_that_says_nothing_is_found(words):
    assert not names_its_target(words)


@each_notebook
def test_pages_that_draw_only_plain_html_show_everything(path):
    """GitHub and VS Code draw these few elements; what else there is would be lost or escaped."""
    for cell in read(path).cells:
        texts = [cell.source] if cell.cell_type == "markdown" else []
        texts += [o.get("data", {}).get("text/markdown", "") for o in cell.get("outputs", [])]
        for text in texts:
            prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
            assert set(re.findall(r"</?([a-z]+)[ >]", prose)) <= {"a", "details", "summary"}, text
        kinds = {kind for o in cell.get("outputs", []) for kind in o.get("data", {})}
        assert kinds <= {"text/plain", "text/markdown", "image/png", "image/jpeg"}


@each_notebook
def test_spelling_is_british(path):
    for cell in markdown_cells(path):
        prose = re.sub(r"`[^`]*`", "", cell.source)
        assert not re.search(AMERICAN, prose), re.search(AMERICAN, prose).group()


@each_notebook
def test_each_link_within_the_course_leads_somewhere(path):
    for cell in markdown_cells(path):
        for target in re.findall(r"\]\(([^)]+)\)", cell.source):
            assert target.startswith("https://") or (path.parent / target).is_file(), target


@each_notebook
def test_the_next_notebook_is_linked(path):
    last = read(path).cells[-1].source
    following = NOTEBOOKS[(NOTEBOOKS.index(path) + 1) % len(NOTEBOOKS)]
    assert f"]({following.name})" in last


# --- no number goes unrun


def numbers(text):
    """The numbers of three or more digits in a text, without thousands separators."""
    found = re.findall(r"\d[\d,]*(?:\.\d+)?", text)
    return {n.rstrip(",").replace(",", "") for n in found if sum(c.isdigit() for c in n) >= 3}


def loose_numbers(prose, evidence, cited=()):
    prose = re.sub(r"https?://\S+", "", prose)
    return numbers(prose) - numbers(evidence) - set(cited)


@each_notebook
def test_each_number_in_prose_is_in_an_output_in_code_or_cited(path):
    cells = code_cells(path)
    evidence = "\n".join([*(c.source for c in cells), *(t for c in cells for t in texts(c))])
    cited = CITED.get(path.name, {})
    prose = "\n".join(c.source for c in markdown_cells(path))
    assert loose_numbers(prose, evidence, cited) == set()
    said = "\n".join(note["words"] for note in notes.notes(path.name[:2]))
    asked = [call.args[2].value for cell in cells for call in calls(cell.source, "predict")]
    wrong = str([predictions.REASONS[name] for name in asked])  # the notes name wrong answers
    assert loose_numbers(said, evidence + prose + wrong) == set()
    assert set(cited) <= numbers(prose), "cited, but not in the prose"


def test_a_loose_number_would_be_found():
    assert loose_numbers("It takes 11,008 of 4096, not 10922.", "4096 and 10922") == {"11008"}
    assert loose_numbers("See https://arxiv.org/abs/1910.07467: 0.0001", "") == {"0.0001"}
    assert loose_numbers("about 99 of 1e-5 in float32", "") == set()


# --- claims and predictions


def calls(source, name):
    tree = ast.parse(source)
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return [n for n in nodes if isinstance(n.func, ast.Name) and n.func.id == name]


@each_notebook
def test_no_claim_expects_what_the_library_itself_says(path):
    for cell in code_cells(path):
        for near in calls(cell.source, "near"):
            called = {getattr(n, "id", None) for n in ast.walk(near.args[1])}
            assert not called & LIBRARY, ast.unparse(near)


@each_notebook
def test_each_claim_is_a_sentence_on_one_line(path):
    for cell in code_cells(path):
        for claim in calls(cell.source, "claim"):
            assert claim.lineno == claim.end_lineno, ast.unparse(claim)
            assert isinstance(claim.args[0], ast.Constant), ast.unparse(claim)


@pytest.fixture(scope="module")
def records():
    """What each notebook says, by running it."""
    with pytest.MonkeyPatch.context() as patch:
        return {path.name: run(path, patch, again=True) for path in NOTEBOOKS}


def test_each_prediction_has_its_reasons_and_each_reason_its_prediction(records):
    asked = [name for record in records.values() for name in record.truths]
    assert sorted(asked) == sorted(predictions.REASONS)


@each_notebook
def test_a_prediction_has_the_same_answer_after_the_last_cell(path, records):
    """Many learners run all cells first, and guess then."""
    record = records[path.name]
    assert not record.raised
    assert record.again.keys() == record.truths.keys()
    for name, truth in record.truths.items():
        later = record.again[name]
        same = later == truth if isinstance(truth, str) else abs(later - truth) <= 0.02 * abs(truth)
        assert same, (name, truth, later)


def test_each_guess_meets_its_own_reason_and_the_truth_meets_none(records, capsys):
    for record in records.values():
        for name, truth in record.truths.items():
            tolerance = record.tolerances[name]
            for wrong, reason in predictions.REASONS[name].items():
                predict(wrong, truth, name, tolerance)
                assert capsys.readouterr().out.strip() == f"✘ Not {wrong}  [{reason}]"
                assert reason[0].islower() or not reason[0].isalpha(), reason
                assert reason.endswith("."), reason
            predict(truth, truth, name, tolerance)
            assert capsys.readouterr().out.startswith("✔ Yes: ")


@each_notebook
def test_no_stored_output_gives_an_answer_away(path, records):
    """A prediction is unanswered; its answer's cell is folded, and its first line is neutral."""
    cells = code_cells(path)
    for asking, answering in itertools.pairwise(cells):
        for call in calls(asking.source, "predict"):
            truth = records[path.name].truths[call.args[2].value]
            assert [t.startswith("○ Your guess first") for t in texts(asking)] == [True]
            assert "answer" in tags(answering)
            first = texts(answering)[0].splitlines()[0]
            assert not says(first, truth), first


def says(line, truth):
    if isinstance(truth, str):
        return truth in line
    found = re.findall(r"-?\d+(?:\.\d+)?", line)
    return any(abs(float(n) - float(truth)) <= 0.02 * abs(truth) for n in found)


def test_a_first_line_that_gives_the_answer_away_would_be_found():
    assert says("the length is 2.00", 2) and says("other numbers", "other numbers")
    assert not says("the length", 2) and not says("of 3 numbers", 2)


# --- exercises

# Answers that are handed in wrong, for the learner to see a verdict, or to mend.
HANDED_IN = {("00", "rms_norm"), ("07", "swiglu_packed")}


def exercises_of(path):
    """(name, question, starter, help) of each exercise; the demonstration in 00 has no question."""
    cells = read(path).cells
    for i, cell in enumerate(cells):
        if cell.cell_type == "code" and (found := calls(cell.source, "check")):
            yield found[0].args[0].value, cells[i - 1], cell, cells[i + 1]


def test_each_exercise_has_its_place():
    found = [name for path in NOTEBOOKS[1:] for name, *_ in exercises_of(path)]
    assert sorted(found) == sorted(exercises.NAMES)


@each_notebook
def test_an_exercise_is_a_question_a_starter_and_help(path):
    required = 0
    for name, question, starter, helping in exercises_of(path):
        if (path.name[:2], name) == ("00", "rms_norm"):
            continue
        exercise = exercises.load(name)
        assert tags(question) == tags(starter) == {"exercise"} and tags(helping) == {"help"}
        assert helping.source == f'help_with("{name}")'
        kind, _ = re.match(r"### Exercise(, optional)?: (.+)", question.source).groups()
        required += kind is None
        minutes = re.search(r"(\d+) minutes", question.source)
        assert int(minutes[1]) == exercise.minutes
        assert len(question.source.split()) <= 70, question.source
        answer = calls(starter.source, "check")[0].args[1].id
        assert answer.lower().startswith("my")
        assert answer not in "".join(c.source for c in code_cells(path) if c.id != starter.id)
    assert required <= 2


@each_notebook
def test_what_answers_is_folded_and_nothing_else(path):
    for cell in read(path).cells:
        folded = [refresh.FOLDED[tag] for tag in tags(cell) & refresh.FOLDED.keys()]
        assert [cell.metadata.get("jupyter")] == (folded or [None])


@each_notebook
def test_a_starter_is_not_attempted_and_takes_what_it_is_given(path):
    for name, _, starter, _ in exercises_of(path):
        (said,) = texts(starter)
        handed_in = (path.name[:2], name) in HANDED_IN
        assert said.startswith("✘ Wrong." if handed_in else "○ Not attempted."), said
        nodes = ast.walk(ast.parse(starter.source))
        takes = [a.arg for n in nodes if isinstance(n, ast.FunctionDef) for a in n.args.args]
        wanted = [*exercises.load(name).arguments]
        assert [argument for argument in takes if argument != "self"][: len(wanted)] == wanted


# --- refresh


def test_refreshing_leaves_a_notebook_with_a_failing_cell_alone(tmp_path):
    notebook = read(NOTEBOOKS[0])
    notebook.cells = [notebook.cells[1]]
    notebook.cells[0].source = "1 / 0"
    notebook.cells[0].metadata.tags = []
    path = tmp_path / "failing.ipynb"
    refresh.nbformat.write(notebook, path)
    before = path.read_bytes()
    with pytest.raises(refresh.CellExecutionError, match="ZeroDivisionError"):
        refresh.refresh(path)
    assert path.read_bytes() == before


def test_cleaning_drops_what_belongs_to_a_machine():
    notebook = read(NOTEBOOKS[0])
    explorer = next(c for c in notebook.cells if "token_explorer()" in c.source)
    explorer.outputs[0].data[refresh.VIEW] = {"model_id": "0"}
    explorer.metadata.update(collapsed=True, tags=["kept"])
    notebook.metadata["widgets"] = {}
    refresh.clean(notebook)
    assert refresh.VIEW not in explorer.outputs[0].data and "image/jpeg" in explorer.outputs[0].data
    assert explorer.metadata.keys() == {"tags", "slideshow"}
    assert notebook.metadata == refresh.METADATA


def test_the_readmes_picture_is_the_stored_explorer():
    assert refresh.PICTURE.read_bytes() == refresh.picture(read(refresh.PICTURED))


def test_the_readme_lists_each_notebook_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    local = [target for target in targets if not target.startswith("https://")]
    assert all((ROOT / target.partition("#")[0]).is_file() for target in local)
    linked = [ROOT / target for target in local if target.startswith("notebooks/")]
    assert linked == NOTEBOOKS


def test_a_definition_that_the_library_has_too_agrees_with_it():
    """Notebook 01 arrives at rms_norm in a function of its own; it must be the same function."""
    torch = pytest.importorskip("torch")
    source = next(
        cell.source
        for cell in code_cells(ROOT / "notebooks" / "01_rmsnorm_vs_layernorm.ipynb")
        if "def first_rms_norm" in cell.source
    )
    definition = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef))
    namespace = {"torch": torch}
    exec(ast.unparse(definition), namespace)
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)) * 0.01 + 0.01
    from course_utils import rms_norm

    torch.testing.assert_close(namespace["first_rms_norm"](x, 1e-3), rms_norm(x, eps=1e-3))
