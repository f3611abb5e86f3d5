"""Run a learner's code for a limited time, and leave everything as it was: knows no exercises."""

import contextlib
import ctypes
import io
import random
import sys
import threading
import warnings

import numpy as np
import torch


class TooLong(BaseException):
    """Not an Exception: an answer's own `except Exception` must not swallow it."""


class Watch:
    """Raises TooLong in the thread that made it when the time is over, and again until stopped.

    Another thread and not a signal: that works on every system and in every thread. It cannot end
    one single long call into C; that is stopped when it returns.
    """

    def __init__(self, seconds):
        self._seconds, self._thread = seconds, ctypes.c_ulong(threading.get_ident())
        self._over, self._gate, self._stopped = False, threading.RLock(), threading.Event()

    def start(self):
        """Begin to count. To be called where `stop` follows whatever happens."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        raise_in, wait = ctypes.pythonapi.PyThreadState_SetAsyncExc, self._seconds
        again = 1.0  # time for what the first one ends, then quickly, for a loop that swallows it
        while not self._stopped.wait(wait):
            with self._gate:
                if self._over:
                    return
                raise_in(self._thread, ctypes.py_object(TooLong))
            wait, again = again, 0.05

    def stop(self):
        """Raise no more. One that is on its way arrives in here, and is let go."""
        while True:
            try:
                with self._gate:
                    self._over = True
                self._stopped.set()
                for _ in range(100):  # Python looks for it at each turn
                    pass
                return
            except TooLong:
                continue


@contextlib.contextmanager
def undisturbed():
    """A usual state inside, and outside all as it was: whatever is set on either side.

    Seeds, torch's default dtype and device, gradient and inference mode, autocast, anomaly and
    deterministic mode, threads, warnings, NumPy's errors and the recursion limit.
    """
    seeds = random.getstate(), np.random.get_state()
    dtype, threads, device = torch.get_default_dtype(), torch.get_num_threads(), _device()
    anomaly, recursion = torch.is_anomaly_enabled(), sys.getrecursionlimit()
    deterministic = torch.are_deterministic_algorithms_enabled()
    on_cpu = contextlib.nullcontext() if device.type == "cpu" else torch.device("cpu")
    with (
        torch.random.fork_rng(devices=[]),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        on_cpu,
        warnings.catch_warnings(action="ignore"),
        np.errstate(),
    ):
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)
            if torch.is_anomaly_enabled() != anomaly:
                torch.autograd.set_detect_anomaly(anomaly)
            if torch.are_deterministic_algorithms_enabled() != deterministic:
                torch.use_deterministic_algorithms(deterministic)
            sys.setrecursionlimit(recursion)
            random.setstate(seeds[0])
            np.random.set_state(seeds[1])
            if device.type == "cpu" and _device() != device:
                torch.set_default_device(None)


def _device():
    """Where a new tensor is made. (torch 2.8's get_default_device fails once it was set back.)"""
    return torch.empty(0).device


@contextlib.contextmanager
def output(limit):
    """Let what is printed through, up to limit characters; with limit 0 no pictures either."""
    with contextlib.ExitStack() as stack:
        for name in ("stdout", "stderr"):
            redirect = getattr(contextlib, f"redirect_{name}")
            stack.enter_context(redirect(_Limited(getattr(sys, name), limit)))
        if not limit and "IPython" in sys.modules:
            stack.enter_context(_no_display())
        yield


def _no_display():
    """What catches display() and figures, where there is a shell that would show them."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    if not InteractiveShell.initialized():
        return contextlib.nullcontext()
    return capture_output(stdout=False, stderr=False, display=True)


class _Limited(io.TextIOBase):
    """A stream that hands on the first characters and drops the rest."""

    def __init__(self, to, limit):
        self._to, self._room, self._cut = to, limit, limit == 0

    def write(self, text):
        self._to.write(text[: self._room])
        if len(text) > self._room and not self._cut:
            self._to.write(" …\n")
            self._cut = True
        self._room -= min(len(text), self._room)
        return len(text)
