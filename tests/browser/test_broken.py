"""What goes wrong is seen: by the learner where an explorer fails, and by these tests elsewhere."""

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: make test-browser")
expect = sync_api.expect


def test_a_failing_update_shows_its_error_in_place_of_the_words(open_notebook):
    opened = open_notebook("broken")
    opened.run_all()
    explorer = opened.explorer()
    expect(explorer.words).to_have_text("The dot is at 1.")
    picture = explorer.bytes()
    explorer.press("place", "ArrowRight")
    expect(explorer.words).to_have_text("This explorer failed. ValueError: there is no dot at 2")
    assert explorer.bytes() == picture
    explorer.press("place", "ArrowRight")
    expect(explorer.words).to_have_text("The dot is at 3.")
    assert explorer.bytes() != picture
    opened.close()


def test_errors_warnings_and_requests_are_noticed(open_notebook):
    opened = open_notebook("noisy")
    opened.run_all()
    warning, error = opened.errors()
    assert "a warning" in warning and "a fault in the cell" in error
    assert any("a fault in the page" in complaint for complaint in opened.complaints)
    assert set(opened.requests) == {"http://elsewhere.invalid/picture.png"}
    opened.close()
