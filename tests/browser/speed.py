"""How long it takes from a key press to the changed picture, measured inside the page."""

from statistics import median
from typing import NamedTuple

# A picture has changed when the browser has loaded and decoded it: then the next frame shows it.
WATCH = """content => {
    const seen = window.seen = {pressed: 0, loaded: [], decoded: [], last: 0};
    document.addEventListener('keydown', () => { seen.pressed = performance.now(); }, true);
    const since = pressed => performance.now() - pressed;
    const note = async picture => {
        const pressed = seen.pressed;
        picture.addEventListener('load', () => seen.loaded.push(since(pressed)), {once: true});
        try { await picture.decode(); } catch { return; }  // the next one has already come
        seen.last = performance.now();
        seen.decoded.push(since(pressed));
    };
    new MutationObserver(records => {
        for (const {type, target, addedNodes} of records) {
            if (type === 'attributes' && target.matches('img')) note(target);
            for (const node of addedNodes) {
                if (node.matches?.('img')) note(node);
                else node.querySelectorAll?.('img').forEach(note);
            }
        }
    }).observe(content, {subtree: true, childList: true, attributeFilter: ['src']});
}"""


MEASURED = "speed"  # under this name a test hands on what it has measured


class Speed(NamedTuple):
    """Milliseconds after a key press: medians, the lowest and the highest; and after a burst."""

    loaded: float  # the browser has the new picture
    decoded: float  # and has decoded it, for the next frame: a browser does so frame by frame
    low: float  # of loaded
    high: float
    settled: float  # from the last press of a burst to the last picture


def measure(page, content, press, run=10, presses=15, burst=20):
    """Move a control to and fro, one key at a time, and then in a burst.

    content: the selector under which the picture is. press: called with 0 for to, 1 for fro.
    run: how many presses of a burst go the same way.
    """
    page.locator(content).first.evaluate(WATCH)
    for i in range(presses + 3):  # the first three warm up
        count = page.evaluate("seen.decoded.length")
        press(i % 2)
        page.wait_for_function("count => seen.decoded.length > count", arg=count)
        page.wait_for_timeout(60)  # lets what follows the picture pass
    loaded, decoded = (page.evaluate(f"seen.{what}")[3:] for what in ("loaded", "decoded"))
    for i in range(burst):
        press(i // run % 2)
    page.wait_for_function("performance.now() - Math.max(seen.last, seen.pressed) > 500")
    settled = page.evaluate("seen.last - seen.pressed")
    return Speed(median(loaded), median(decoded), min(loaded), max(loaded), settled)
