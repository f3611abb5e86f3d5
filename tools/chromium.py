"""A notebook in Chromium, as a learner has it: a Jupyter server, a page, and keys to press.

    python tools/chromium.py    says which Chromium the browser tests would use (status 1: none)

Two front ends are known: JupyterLab, and the classic Notebook 6, whose widgets are those of Colab
(ipywidgets 7). Which of them is used depends on what is installed.
"""

import base64
import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = (
    "--no-sandbox",  # which root cannot have
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",  # and nothing that Chromium itself would fetch
    "--disable-component-update",
    "--disable-sync",
)


def find():
    """Path of a Chromium, or None. The variable CHROMIUM names one; empty, it says: none."""
    named = os.environ.get("CHROMIUM")
    if named is None:
        return next((path for path in map(shutil.which, NAMES) if path), None)
    if named and not shutil.which(named):
        raise FileNotFoundError(f"CHROMIUM={named}: there is no such program")
    return shutil.which(named)


@contextlib.contextmanager
def browser():
    """Chromium without a window, as Playwright drives it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=find(), args=FLAGS)
        yield started
        started.close()


# --- front ends


@dataclass(frozen=True)
class FrontEnd:
    """What differs between two ways to show a notebook: JavaScript, and CSS selectors."""

    command: tuple  # arguments of Python that start its server
    path: str  # of a notebook's page on the server, and the server's token
    ready: str  # is the notebook there, with an idle kernel?
    run: str  # start all cells
    ran: str  # have they ended?
    end: str  # the kernel
    content: str  # the notebook without menus
    code_cell: str
    errors: str  # outputs that are errors or went to stderr
    handle: str  # what moves in a slider
    settings: dict = field(default_factory=dict)  # JupyterLab's plugin -> what is set
    style: Path | None = None  # of the pages, beside JupyterLab's own
    pause: int = 0  # milliseconds after `ready`, where widgets do not say when they are
    own_complaints: str = "(?!)"  # pattern of console errors that are its own
    set_theme: str = ""  # dark or not; empty where there is one theme
    is_theme: str = ""


LAB = FrontEnd(
    command=("jupyterlab", "--LabApp.expose_app_in_browser=True"),
    path="lab/tree/{}?reset&token={}",  # reset: without the tabs of the notebook before
    # The toolbar says "idle" before there is a session, so the session itself is asked.
    ready="""() => {
        const session = window.jupyterapp?.shell?.currentWidget?.sessionContext;
        return session?.isReady && session.session?.kernel?.connectionStatus === 'connected'
            && session.session.kernel.status === 'idle';
    }""",
    run="""() => {
        window.ran = false;
        jupyterapp.commands.execute('notebook:run-all-cells').finally(() => { window.ran = true; });
    }""",
    ran="() => window.ran",
    end="async () => { await jupyterapp.shell.currentWidget.sessionContext.shutdown(); }",
    content=".jp-Notebook",
    code_cell=".jp-CodeCell",
    errors='.jp-RenderedText[data-mime-type="application/vnd.jupyter.stderr"], '
    '.jp-RenderedText[data-mime-type="application/vnd.jupyter.error"]',
    handle='[role="slider"]',
    settings={  # what would hide cells, write files or ask the network
        "@jupyterlab/apputils-extension/notification": {"fetchNews": "false"},
        "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
        "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    },
    set_theme="""async dark => {
        const theme = dark ? 'JupyterLab Dark' : 'JupyterLab Light';
        await jupyterapp.commands.execute('apputils:change-theme', {theme});
    }""",
    is_theme="""dark => document.body.dataset.jpThemeLight === String(!dark)
        && !document.querySelector('.jupyterlab-splash')""",
)

CLASSIC = FrontEnd(
    command=("notebook",),
    path="notebooks/{}?token={}",
    ready="""() => {
        const notebook = window.Jupyter?.notebook;
        return notebook?._fully_loaded && notebook.kernel?.is_connected()
            && document.querySelector('#kernel_indicator_icon.kernel_idle_icon');
    }""",
    run="""() => {
        window.ran = false;
        Jupyter.notebook.execute_all_cells();
        // Asked after the cells, this is answered after them.
        Jupyter.notebook.kernel.kernel_info(() => { window.ran = true; });
    }""",
    ran="() => window.ran",
    end="() => new Promise(done => Jupyter.notebook.session.delete(done, done))",
    content="#notebook-container",
    code_cell=".code_cell",
    errors=".output_stderr, .output_error",
    handle=".ui-slider-handle",
    pause=1000,
    own_complaints="about:blank",  # its formulas' fonts
)


def front_end():
    """JupyterLab where it is installed, else the classic Notebook."""
    return LAB if find_spec("jupyterlab") else CLASSIC


# --- a notebook in a page

WINDOW = {"width": 1280, "height": 1000}


class OpenNotebook:
    """A notebook, open in a page of its own with a kernel of its own.

    chrome: a started browser. served: the server. path: the notebook's, from the server's folder.
    What goes wrong on the way is kept: `complaints` are the console's errors, `requests` those of
    the page that ask another machine.
    """

    def __init__(self, chrome, served, path):
        self.front, self.complaints, self.requests = served.front, [], []
        here = served.address.partition("//")[2]
        self._here = (f"http://{here}/", f"ws://{here}/", "data:", "blob:", "about:")
        self.page = chrome.new_page(viewport=WINDOW)
        self.page.set_default_timeout(60_000)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._on_request)
        self.page.on("websocket", self._on_request)
        self.page.goto(f"{served.address}/{self.front.path.format(path, served.token)}")
        self.page.wait_for_function(self.front.ready)
        self.page.wait_for_timeout(self.front.pause)

    def run_all(self):
        """Run every cell, and wait for the last."""
        self.page.evaluate(self.front.run)
        self.page.wait_for_function(self.front.ran)

    def errors(self):
        """The text of each output that is an error or went to stderr."""
        return self.page.locator(self.front.errors).all_inner_texts()

    def explorer(self):
        """The notebook's explorer."""
        return ShownExplorer(self.page, self.front.handle)

    def dark(self, dark=True):
        """Change JupyterLab to the dark theme, or back."""
        self.page.evaluate(self.front.set_theme, dark)
        self.page.wait_for_function(self.front.is_theme, arg=dark)

    def stretch(self):
        """Make JupyterLab's window as tall as all cells, and scroll to the first."""
        height = self.page.locator(self.front.content).evaluate(
            "e => [...e.querySelectorAll('.jp-Cell')].reduce((sum, c) => sum + c.offsetHeight, 400)"
        )
        self.page.set_viewport_size(WINDOW | {"height": height})
        self.page.locator(".jp-WindowedPanel-outer").first.evaluate("e => { e.scrollTop = 0; }")
        self.page.wait_for_timeout(1000)  # lets it be painted

    def close(self):
        """End the kernel and close the page."""
        self.page.evaluate(self.front.end)
        self.page.close()

    def _on_console(self, message):
        said = f"{message.text} ({message.location['url']})"
        if message.type == "error" and not re.search(self.front.own_complaints, said):
            self.complaints.append(said)

    def _on_request(self, request):
        if not request.url.startswith(self._here):
            self.requests.append(request.url)


# What an <img> shows, as a data address.
READ = """async img => {
    const blob = await (await fetch(img.src)).blob();
    return new Promise(done => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result);
        reader.readAsDataURL(blob);
    });
}"""


class ShownExplorer:
    """An explorer in a page, moved by keys alone."""

    def __init__(self, page, handle):
        self.page, self.handle = page, handle
        self.picture = page.locator("img.widget-image")
        self.words = page.locator(".widget-html-content")
        self.controls = page.locator(".widget-vbox")

    def control(self, label):
        """The row of a control, by its label."""
        named = self.page.locator(".widget-label", has_text=re.compile(f"^{re.escape(label)}$"))
        return self.controls.locator(".widget-inline-hbox").filter(has=named)

    def press(self, label, key):
        """Press a key on a slider's handle."""
        self.control(label).locator(self.handle).press(key)

    def switch(self, label, option):
        """Press the button of an option in a row of buttons."""
        named = re.compile(f"^[●○] {re.escape(str(option))}$")
        self.control(label).get_by_role("button", name=named).press("Enter")

    def chosen(self, label):
        """The words of the options that a row of buttons marks as chosen."""
        marked = self.control(label).get_by_role("button", name="●").all_inner_texts()
        return [text.removeprefix("● ") for text in marked]

    def button(self, name):
        """Press a preset's button, or Reset."""
        buttons = self.controls.locator(".widget-hbox").last
        buttons.get_by_role("button", name=name, exact=True).press("Enter")

    def gap(self):
        """How far below the picture the controls begin, in pixels."""
        return self.controls.bounding_box()["y"] - self.picture.bounding_box()["y"]

    def bytes(self):
        """The picture that the page shows, as it came from the kernel."""
        return base64.b64decode(self.picture.evaluate(READ).partition(",")[2])


# --- slides

# Of a deck: the active cell; the cells that are seen, and those that a later press will show; how
# far they reach beyond the window; and what is cut off at their right.
DECK = """() => {
    const {content} = jupyterapp.shell.currentWidget;
    const cells = content.widgets.map(widget => widget.node);
    const having = name => [...cells.keys()].filter(i => cells[i].classList.contains(name));
    const seen = having('jp-deck-mod-visible');
    const boxes = seen.map(i => cells[i].getBoundingClientRect());
    const outer = content.node.querySelector('.jp-WindowedPanel-outer');
    const parts = '.cm-scroller, pre, table, img';
    const inside = seen.flatMap(i => [...cells[i].querySelectorAll(parts)]);
    return {
        active: content.activeCellIndex,
        seen,
        waiting: having('jp-deck-mod-onscreen').filter(i => !seen.includes(i)),
        beyond: Math.max(
            outer.scrollHeight - outer.clientHeight,
            ...boxes.map(box => -box.top),
            ...boxes.map(box => box.bottom - window.innerHeight),
        ),
        cut: inside.filter(e => e.scrollWidth > e.clientWidth + 1
            || e.getBoundingClientRect().right > window.innerWidth).map(e => e.className),
    };
}"""
AT_END = ".jp-deck-mod-direction-forward.jp-mod-disabled"
PROJECTOR = {"width": 1280, "height": 720}


class ShownDeck:
    """A notebook that jupyterlab-deck shows as slides, moved by keys alone.

    opened: an OpenNotebook, from a server with the settings of tools/lecture.py.
    """

    def __init__(self, opened):
        self.page = opened.page
        self.page.set_viewport_size(PROJECTOR)
        self.page.locator(".jp-deck-mod-visible").first.wait_for()
        self.page.wait_for_timeout(1500)  # after a second the plugin closes the side bars

    def run_all(self):
        """Run all cells, as the lecturer does, which ends on the first slide."""
        self.page.keyboard.press("Control+Shift+Enter")
        self.page.wait_for_timeout(500)  # until the last slide is there
        self.page.wait_for_function(
            "() => jupyterapp.shell.currentWidget.content.widgets.every(cell =>"
            " cell.model.type !== 'code' || cell.model.executionState === 'idle')"
        )
        self.page.wait_for_function(f"() => ({DECK})().active === 0")

    def press(self, key):
        """Press a key; return what is then seen, after a second if it changes nothing."""
        before = self.shown()
        self.page.keyboard.press(key)
        for _ in range(20):
            self.page.wait_for_timeout(50)
            if self.shown() != before:
                self.page.wait_for_timeout(120)  # what appears does so in a tenth of a second
                break
        return self.shown()

    def shown(self):
        return self.page.evaluate(DECK)

    def walk(self, key):
        """Press a key until the end; give what is seen before and after each press."""
        shown = self.shown()
        yield shown
        while not self.page.locator(AT_END).count():
            before, shown = shown, self.press(key)
            if shown == before:
                raise RuntimeError(f"{key} leads no further than to cell {shown['active']}")
            yield shown


# --- a server


class Server(NamedTuple):
    """A running server: its address, the token that opens it, and its front end."""

    address: str
    token: str
    front: FrontEnd


@contextlib.contextmanager
def server(front, folder):
    """A front end's server over a folder, with settings of its own. Gives a Server."""
    with tempfile.TemporaryDirectory(prefix="jupyter-", ignore_cleanup_errors=True) as home:
        folders = own_folders(home, front.settings, front.style)
        address = f"http://127.0.0.1:{(port := free_port())}"
        token = secrets.token_hex(16)
        # Each of the two servers ignores what is named after the other.
        options = [f"--{app}.token={token}" for app in ("IdentityProvider", "NotebookApp")]
        options += [f"--{app}.port_retries=0" for app in ("ServerApp", "NotebookApp")]
        options += ["--LabApp.custom_css=True"] if front.style else []
        options += ["--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
        with (
            open(f"{home}/log", "wb") as log,
            subprocess.Popen(
                [sys.executable, "-m", *front.command, *options],
                cwd=folder,
                env=os.environ | folders,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                wait_for(address, process, Path(log.name))
                yield Server(address, token, front)
            finally:
                process.terminate()  # it ends its kernels first
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()


def own_folders(home, settings, style=None):
    """Write settings (plugin -> what is set) and a style below a folder.

    Returns the environment in which Jupyter uses this folder, and nobody's own settings.
    """
    for plugin, changed in settings.items():
        file = Path(home, "settings", f"{plugin}.jupyterlab-settings")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(changed), encoding="utf-8")
    if style:
        custom = Path(home, "config", "custom")
        custom.mkdir(parents=True)
        shutil.copy(style, custom / "custom.css")
    return {
        "JUPYTERLAB_SETTINGS_DIR": f"{home}/settings",
        "JUPYTERLAB_WORKSPACES_DIR": f"{home}/workspaces",
        "JUPYTER_CONFIG_DIR": f"{home}/config",
        "JUPYTER_DATA_DIR": f"{home}/data",
        "JUPYTER_RUNTIME_DIR": f"{home}/runtime",
        "IPYTHONDIR": f"{home}/ipython",
    }


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(address, process, log, seconds=60):
    """Return when the server answers; if it ends or stays silent, raise with its log."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api"):
            return
        time.sleep(0.1)
    raise RuntimeError(f"Jupyter did not start:\n{log.read_text(errors='replace')[-3000:]}")


if __name__ == "__main__":
    try:
        found = find()
    except FileNotFoundError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
    print(
        f"The browser tests use {found}."
        if found
        else "No Chromium was found, so the browser tests do not run: see docs/contributing.md."
    )
    sys.exit(not found)
