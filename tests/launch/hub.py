"""Teach a class on a JupyterHub of this machine: see that it works, or measure it.

    make hub LEARNERS=3     measure: tables in Markdown, for docs/hub.md
    make test-launch        see that it works: the same with three accounts at once, no tables

All is real but the distance: JupyterHub, its proxy, a server and kernels for each learner, and
nbgitpuller, which finds the course in a local copy where it asks for github.com. A learner logs in,
follows the class's link and runs all notebooks, cell by cell, without a pause: the worst case. One
account shuts no kernel down. To measure, it and another work alone before `learners` work at once.
At the end a correction is published, and all follow the link again: nothing of theirs may be lost.

Status 1: a cell failed or somebody did not finish. OMP_NUM_THREADS, if set, is how many threads a
kernel computes with. Memory is read in /proc, which only Linux has.
"""

import contextlib
import importlib.metadata
import json
import math
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from http.cookiejar import CookieJar
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

import nbformat
import psutil
import websocket

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))  # as a command; pytest knows it
from chromium import ROOT, free_port, wait_for
from links import FIRST, GITHUB, address

COURSE = address()._replace(repository=f"{GITHUB}owner/name")
PACKAGES = ("jupyterhub", "nbgitpuller", "jupyterlab", "torch")
THREADS = {k: v for k, v in os.environ.items() if k == "OMP_NUM_THREADS"}
LESSONS = len([*(ROOT / "notebooks").glob("*.ipynb")])
KEEPS = "keeps-kernels"  # the account that shuts no kernel down
NOTE, CORRECTION = "A learner's own note.", "A teacher's correction."
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OUTPUTS = ("stream", "display_data", "execute_result", "error")
PATIENCE = 300  # seconds for one answer: many servers and kernels may start at once
MB = 1e6


# --- the course, where learners' git looks for it


def git(*arguments, cwd=ROOT):
    who = ("-c", "user.name=hub", "-c", "user.email=hub@localhost")
    return subprocess.check_output(["git", *who, *arguments], cwd=cwd, text=True)


def publish(folder):
    """Commit the working tree in folder/course; folder/github holds what GitHub would have."""
    source, bare = folder / "course", folder / "github/owner/name"
    for name in git("ls-files", "-z", "-co", "--exclude-standard").split("\0"):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    git("init", "--quiet", "--initial-branch", COURSE.branch, cwd=source)
    git("add", "--all", cwd=source)
    git("commit", "--quiet", "-m", "the course", cwd=source)
    git("clone", "--quiet", "--bare", source, bare)


def correct(folder):
    """Publish a later commit, which changes notebook 00."""
    path = folder / "course" / FIRST
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source += f"\n\n{CORRECTION}"
    nbformat.write(notebook, path)
    git("commit", "--quiet", "-a", "-m", "a correction", cwd=path.parent)
    git("push", "--quiet", folder / "github/owner/name", "HEAD", cwd=path.parent)


# --- the hub


class Hub(NamedTuple):
    """A running JupyterHub: its address, its process, and the folder of all that it writes."""

    address: str
    process: psutil.Process
    folder: Path


def config(folder, port):
    """JupyterHub's configuration. port: of the proxy, which learners talk to."""
    proxy = shutil.which("configurable-http-proxy", path=Path(sys.executable).parent)
    redirection = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{(folder / 'github').as_uri()}/.insteadOf",
        "GIT_CONFIG_VALUE_0": GITHUB,
    }
    return {
        "JupyterHub": {
            "bind_url": f"http://127.0.0.1:{port}",
            "hub_bind_url": f"http://127.0.0.1:{free_port()}",
            "authenticator_class": "dummy",
            "spawner_class": "simple",
        },
        "Authenticator": {"allow_all": True},
        "ConfigurableHTTPProxy": {
            "api_url": f"http://127.0.0.1:{free_port()}",
            # This proxy, in Python, passes an answer on when it is complete: that of a clone, late.
            "command": [sys.executable, proxy, f"--proxy-timeout={1000 * PATIENCE}"],
        },
        "SimpleLocalProcessSpawner": {"home_dir_template": f"{folder}/home/{{username}}"},
        "Spawner": {
            "cmd": [sys.executable, "-m", "jupyterhub.singleuser"],
            "args": ["--allow-root", "--LabApp.news_url=None"],
            "default_url": "/lab",
            "environment": redirection | THREADS,
            "start_timeout": PATIENCE,
            "http_timeout": PATIENCE,
        },
    }


@contextlib.contextmanager
def running_hub():
    """A Hub with the course published. Afterwards its processes and its folder are gone."""
    with tempfile.TemporaryDirectory(prefix="hub-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        publish(folder)
        (folder / "config.json").write_text(json.dumps(config(folder, port)), encoding="utf-8")
        with (folder / "log").open("wb") as log:
            process = psutil.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", "config.json"],
                cwd=folder,
                env=os.environ | {"HOME": name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl+C is for this process, which then ends the hub
            )
            try:
                at = f"http://127.0.0.1:{port}"
                wait_for(f"{at}/hub", process, folder / "log", PATIENCE)
                yield Hub(at, process, folder)
            finally:
                end(process, name)


def end(process, home):
    """End the hub, which ends all that it has started; then whatever else has its HOME there."""
    process.terminate()
    with contextlib.suppress(psutil.TimeoutExpired):
        process.wait(30)
    left = []
    for other in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if other.environ().get("HOME", "").startswith(home):
                other.kill()
                left.append(other)
    psutil.wait_procs(left, timeout=10)


def owner(process):
    """Whose a process of the hub is: a learner's name, "proxy" or "hub"."""
    variables = process.environ()
    other = "proxy" if "CONFIGPROXY_AUTH_TOKEN" in variables else "hub"
    return variables.get("JUPYTERHUB_USER", other)


class Meter(threading.Thread):
    """Reads every 0.3 seconds how much memory each owner's processes have: (owner, kind) -> MB.

    Of the two kinds, "rss" counts a page shared by several processes in each of them. "pss" shares
    it out among them: only this may be added up. `all` is the highest sum so far.
    """

    def __init__(self, hub):
        super().__init__(daemon=True)
        self.hub, self.now, self.peak, self.all = hub.process, Counter(), Counter(), 0

    def run(self):
        while self.hub.is_running():
            now = Counter()
            with contextlib.suppress(psutil.Error):  # of a process that ends just now
                for process in (self.hub, *self.hub.children(recursive=True)):
                    with contextlib.suppress(psutil.Error):
                        who, memory = owner(process), process.memory_full_info()
                        now[who, "rss"] += memory.rss / MB
                        now[who, "pss"] += memory.pss / MB
            self.now, self.peak = now, self.peak | now  # | takes the larger of two counts
            self.all = max(self.all, sum(now[key] for key in now if key[1] == "pss"))
            time.sleep(0.3)


# --- learners


class Kernel:
    """A notebook's kernel, spoken to as JupyterLab does: through a websocket."""

    def __init__(self, learner, path):
        wanted = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        self.learner, self.session = learner, learner.ask("POST", "sessions", wanted)
        kernel = f"/user/{learner.name}/api/kernels/{self.session['kernel']['id']}"
        request = Request(f"{learner.hub.address}{kernel}/channels?session_id={uuid.uuid4().hex}")
        learner.jar.add_cookie_header(request)
        self.socket = websocket.create_connection(
            request.full_url.replace("http", "ws", 1),
            cookie=request.get_header("Cookie"),
            timeout=PATIENCE,
        )

    def run(self, source):
        """A cell's outputs. It is done when the kernel has both replied and become idle."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell"}
        self.socket.send(json.dumps(message | {"content": {"code": source, "allow_stdin": False}}))
        outputs, waiting = [], {"execute_reply", "idle"}
        while waiting:
            received = self.socket.recv()
            if isinstance(received, bytes):  # a widget's picture
                continue
            message = json.loads(received)
            kind, content = message["header"]["msg_type"], message["content"]
            if content.get("execution_state") in ("restarting", "autorestarting", "dead"):
                raise RuntimeError("the kernel died")
            if message["parent_header"].get("msg_id") == header["msg_id"]:
                waiting.discard(content.get("execution_state", kind))
                if kind in OUTPUTS:
                    outputs.append(nbformat.v4.output_from_msg(message))
        return outputs

    def shut_down(self):
        self.socket.close()
        self.learner.ask("DELETE", f"sessions/{self.session['id']}")


class Learner:
    """An account of the hub, used as a browser does, with cookies; and what its course has taken.

    joined, seconds: from the log-in to the pulled course; for all notebooks. start_cpu, cpu: the
    same in seconds of a core. server, last: memory in MB, {"rss": …, "pss": …}, before the first
    kernel and after the last notebook. disk: MB of the home folder.
    """

    def __init__(self, hub, meter, name):
        self.hub, self.meter, self.name, self.jar = hub, meter, name, CookieJar()
        self.opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(self.jar))
        self.home, self.failures, self.said = hub.folder / "home" / name, [], []

    def open(self, path, data=None, method=None):
        """The path where the way ends, and the text there. data: bytes to send."""
        request = Request(self.hub.address + path, data, self.proof(path), method=method)
        with self.opener.open(request, timeout=PATIENCE) as answer:
            return urlsplit(answer.url).path, answer.read().decode()

    def proof(self, path):
        """The header that says: this request comes from the hub's own page."""
        mine = [c.value for c in self.jar if c.name == "_xsrf" and path.startswith(c.path)]
        return {"X-XSRFToken": mine[-1]} if mine else {}

    def ask(self, method, path, data=None):
        """The JSON that the learner's server answers to JSON."""
        data = None if data is None else json.dumps(data).encode()
        return json.loads(self.open(f"/user/{self.name}/api/{path}", data, method)[1] or "null")

    def log_in(self):
        self.open("/hub/login")
        form = {"username": self.name, "_xsrf": self.proof("/hub/login")["X-XSRFToken"]}
        self.open("/hub/login", urlencode(form | {"password": "any"}).encode())

    def follow_link(self):
        """Open the class's link until the server is there; then do what nbgitpuller's page does."""
        link, page = COURSE.pull(""), f"/user/{self.name}/git-pull"
        give_up = time.monotonic() + PATIENCE
        while self.open(link)[0] != page:
            if time.monotonic() > give_up:
                raise TimeoutError("the server did not start")
            time.sleep(1)
        _, events = self.open(f"{page}/api?{urlsplit(link).query}")
        if '"phase": "finished"' not in events:
            raise RuntimeError(f"nbgitpuller: {events[-500:]}")

    def notebooks(self):
        """Paths of the notebooks from the home folder."""
        listed = self.ask("GET", f"contents/name/{Path(FIRST).parent}")["content"]
        return sorted(item["path"] for item in listed if item["type"] == "notebook")

    def attend(self):
        """Log in, follow the link, and work through all notebooks."""
        start = time.monotonic()
        with self.noted("did not finish"):
            self.log_in()
            self.follow_link()
            self.joined, self.start_cpu = time.monotonic() - start, self.used()
            self.server = self.memory()
            start = time.monotonic()
            for path in self.notebooks():
                self.study(path)
            self.seconds, self.cpu = time.monotonic() - start, self.used() - self.start_cpu
            self.last = self.memory()

    def study(self, path):
        """Open a notebook, run all cells one by one, add a note, save, shut the kernel down."""
        notebook, kernel = self.ask("GET", f"contents/{path}")["content"], Kernel(self, path)
        for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
            cell["outputs"] = kernel.run(cell["source"])
            may_fail = "raises-exception" in cell["metadata"].get("tags", [])
            for output in cell["outputs"]:
                if output["output_type"] == "error" and not may_fail:
                    self.failures.append(f"{path}, cell {cell['id']}: {output['evalue']}")
                if output.get("name") == "stderr":
                    self.said.append(f"{path}, cell {cell['id']}: {output['text']}")
        printed = kernel.run("import course_utils; print(course_utils.__file__)")
        if not (where := "".join(o["text"] for o in printed)).startswith(str(self.home)):
            self.failures.append(f"{path}: its course_utils is not the learner's, but {where}")
        notebook["cells"].append(nbformat.v4.new_markdown_cell(NOTE))
        saved = {"type": "notebook", "format": "json", "content": notebook}
        self.ask("PUT", f"contents/{path}", saved)
        if self.name != KEEPS:
            kernel.shut_down()

    def stop(self):
        """Stop the server, as the hub's control panel does."""
        with self.noted("did not stop"):
            self.open(f"/hub/api/users/{self.name}/server", method="DELETE")

    def come_again(self):
        """Follow the link another day: the correction has come, and no note has gone."""
        with self.noted("second click"):
            self.follow_link()
            for path in self.notebooks():
                cells = nbformat.read(self.home / path, as_version=4).cells
                if cells[-1].source != NOTE:
                    self.failures.append(f"{path}: the second click has lost a note")
                if path.endswith(FIRST) and CORRECTION not in cells[0].source:
                    self.failures.append(f"{path}: the second click has not brought the correction")
        self.disk = sum(512 * path.lstat().st_blocks for path in self.home.rglob("*")) / MB

    def used(self):
        """Seconds of a core that the server has used, and whatever it started that has ended."""
        processes = self.hub.process.children()
        times = next(one for one in processes if owner(one) == self.name).cpu_times()
        return times.user + times.system + times.children_user + times.children_system

    def memory(self):
        """MB after a second without work, for each kind."""
        time.sleep(1)
        return {kind: self.meter.now[self.name, kind] for kind in ("rss", "pss")}

    @contextlib.contextmanager
    def noted(self, what):
        """Keep what goes wrong as a failure: the other learners go on."""
        try:
            yield
        except Exception as problem:
            self.failures.append(f"{what}: {problem!r}")


def at_once(task, many):
    """Do the task for each of many, all at once."""
    pool = ThreadPoolExecutor(len(many))
    try:
        list(pool.map(task, many))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after Ctrl+C nobody waits for answers


# --- the report


WAIT = 30  # seconds that a notebook may take when all learners run it at the same moment


class Cost(NamedTuple):
    """What was measured: memory (PSS) and disk in MB, CPU in seconds of a core."""

    hub: float  # memory of the hub and its proxy
    one: float  # of a learner's server with one notebook and its processes, at the peak
    all: float  # of a learner's server with all notebooks open, at rest
    notebook: float  # CPU for all cells of a notebook, on average
    start: float  # CPU from log-in to pulled course
    disk: float  # of a learner's home folder


def sizing(learners, cost):
    """For so many learners at once: GB with one notebook each, GB with all, the cores with which a
    notebook takes WAIT seconds, the seconds in which all have started on these cores, GB of disk.
    """
    cores = math.ceil(learners * cost.notebook / WAIT)
    memory = [(cost.hub + learners * each) / 1000 for each in (cost.one, cost.all)]
    return *memory, cores, learners * cost.start / cores, learners * cost.disk / 1000


def two(number):
    """A number's first two digits: no more can be repeated."""
    return f"{float(f'{number:.2g}'):g}"


def spread(values):
    """The median, with the lowest and the highest where they differ."""
    low, middle, high = map(two, (min(values), statistics.median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def table(*rows):
    """Print Markdown, the first row as the head."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    print("", lines[0], "|:--" + "|--:" * (len(rows[0]) - 1) + "|", *lines[1:], sep="\n")


def report(meter, kept, alone, group):
    """Print what was measured, and what follows for other classes."""
    cores = len(os.sched_getaffinity(0))
    threads = THREADS.get("OMP_NUM_THREADS", f"{cores} (one for each core)")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    print(
        f"\n{date.today()}: {cores} cores ({platform.machine()}), threads of a kernel: {threads}."
    )
    print(f"Python {platform.python_version()}, {versions}.")

    def row(name, value):
        return name, spread([value(alone)]), spread([value(one) for one in group])

    def memory(kind):
        """Rows about one kind of memory."""
        unit = f"MB {kind.upper()}"
        each = (kept.last[kind] - kept.server[kind]) / LESSONS
        hub, proxy = (two(meter.peak[who, kind]) for who in ("hub", "proxy"))
        yield row(f"the server alone, {unit}", lambda one: one.server[kind])
        yield row(f"server and one notebook, peak, {unit}", lambda one: meter.peak[one.name, kind])
        yield f"server and {LESSONS} open notebooks, {unit}", two(kept.last[kind]), ""
        yield f"computed: one of these, {unit}", two(each), ""
        yield f"the hub and its proxy, for all, {unit}", "", f"{hub} and {proxy}"

    table(
        ("for each learner", "one alone", f"{len(group)} at once"),
        row("from log-in to pulled course, s", lambda one: one.joined),
        row("its CPU, s", lambda one: one.start_cpu),
        row("all notebooks without a pause, s", lambda one: one.seconds),
        row("their CPU, s", lambda one: one.cpu),
        *memory("rss"),
        *memory("pss"),
        ("everything, peak, MB PSS", "", two(meter.all)),
        row("disk, MB", lambda one: one.disk),
    )
    cost = Cost(
        hub=sum(meter.peak[who, "pss"] for who in ("hub", "proxy")),
        one=max(meter.peak[one.name, "pss"] for one in group),
        all=kept.last["pss"],
        notebook=alone.cpu / LESSONS,
        start=alone.start_cpu,
        disk=max(one.disk for one in group),
    )
    cost = Cost(*(float(two(value)) for value in cost))  # so that the table follows from itself
    hub, one, every, notebook, start, disk = cost
    gb = [two(mb / 1000) for mb in (hub, one, every, disk)]
    table(
        ("", "GB, one notebook each", "GB, all open", "cores", "seconds to start", "disk, GB"),
        ("measured: hub and proxy", gb[0], gb[0], "", "", ""),
        (
            "measured: a learner",
            gb[1],
            gb[2],
            f"{two(notebook)} s CPU",
            f"{two(start)} s CPU",
            gb[3],
        ),
        *((f"computed: {n} learners", *map(two, sizing(n, cost))) for n in (10, 30, 100)),
    )


def leave(number, _):
    """Leave by way of running_hub, which cleans up; once is enough."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def main(learners=0):
    """learners: how many to measure at once; with 0, only see that three can work."""
    if not Path("/proc/self/smaps_rollup").exists():
        sys.exit("This reads memory in /proc/*/smaps_rollup, which only Linux has.")
    for number in SIGNALS:
        signal.signal(number, leave)
    with running_hub() as hub:
        meter = Meter(hub)
        meter.start()
        everybody = []
        measured = [KEEPS], ["alone"], [f"learner{i}" for i in range(learners)]
        for names in measured if learners else [[KEEPS, "learner0", "learner1"]]:
            print(f"{len(names)} at once …", file=sys.stderr)
            meter.all = 0
            now = [Learner(hub, meter, name) for name in names]
            at_once(Learner.attend, now)
            at_once(Learner.stop, now)
            everybody += now
        correct(hub.folder)
        at_once(Learner.come_again, everybody)
    failures = [f"{one.name}: {text}" for one in everybody for text in one.failures]
    said = [f"{one.name}: {text}" for one in everybody for text in one.said]
    if learners and all(hasattr(one, "last") for one in everybody):
        report(meter, *everybody[:2], everybody[2:])
    print(
        f"\n{len(failures)} failures, {len(said)} times words on stderr", *failures, *said, sep="\n"
    )
    sys.exit(bool(failures))


if __name__ == "__main__":
    if not all(re.fullmatch("[1-9][0-9]*", learners) for learners in sys.argv[1:2]):
        sys.exit(f"{sys.argv[1]}: a number of learners is needed, as in: make hub LEARNERS=3")
    main(*map(int, sys.argv[1:2]))
