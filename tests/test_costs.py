"""Counting and timing: counts against formulas and torch's own counter; no test of speed."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from course_utils import LlamaBlock, measure, plots, rms_norm

META = torch.device("meta")


# --- timing: that it measures, never how fast


def test_a_timing_is_of_a_call_after_a_warm_up():
    calls = []
    timed = measure.timing(lambda: calls.append(1), seconds=1e-4)
    assert len(calls) > timed.runs >= 5
    assert timed.median > 0 and timed.spread >= 0


@pytest.mark.parametrize(
    ("seconds", "spread", "words"),
    [(0.0123, 0.0004, "  12.3 ms ± 0.4"), (45e-6, 1.5e-6, "  45.0 µs ± 1.5")],
)
def test_a_timing_in_words(seconds, spread, words):
    assert str(measure.Timing(seconds, spread, 9)) == words


def test_timing_leaves_the_number_of_threads_alone():
    threads = torch.get_num_threads()
    measure.timing(torch.get_num_threads, seconds=1e-4)
    assert torch.get_num_threads() == threads


def test_timing_says_what_it_wants():
    with pytest.raises(TypeError, match="function must be callable without arguments, got 3"):
        measure.timing(3)
    with pytest.raises(ValueError, match="seconds must be above zero, got 0"):
        measure.timing(print, seconds=0)


def test_the_device_is_a_gpu_if_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert measure.device() == torch.device("cpu")
    assert measure.device_name() == "one thread of this CPU"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A GPU")
    assert measure.device() == torch.device("cuda")
    assert measure.device_name() == "A GPU"


# --- counting


@pytest.mark.parametrize(("tokens", "width", "out"), [(1, 8, 24), (5, 16, 3), (7, 1, 1)])
@pytest.mark.parametrize(("dtype", "number"), [(torch.float32, 4), (torch.bfloat16, 2)])
def test_a_projection_costs_what_torch_counts(tokens, width, out, dtype, number):
    x, w = torch.empty(tokens, width, dtype=dtype), torch.empty(out, width, dtype=dtype)
    cost = measure.projection_cost(tokens, width, out, number)
    with FlopCounterMode(display=False) as counter:
        F.linear(x, w)
    assert cost.operations == counter.get_total_flops()
    assert cost.bytes == x.nbytes + w.nbytes + F.linear(x, w).nbytes
    assert cost.bytes == measure.moved(measure.traffic(lambda: F.linear(x, w)))
    assert cost.intensity == cost.operations / cost.bytes


def test_norm_and_silu_up_cost_one_pass():
    assert measure.norm_cost(3, 10) == (4 * 30, 4 * (30 + 30 + 10))
    assert measure.norm_cost(3, 10, number=2).bytes == 2 * (30 + 30 + 10)
    assert measure.silu_up_cost(3, 10) == (5 * 30, 4 * 3 * 30)


@pytest.mark.parametrize(("intensity", "speed"), [(1, 10), (9, 90), (10, 100), (11, 100)])
def test_the_roof_is_slope_then_peak(intensity, speed):
    assert measure.roof(intensity, bandwidth=10, peak=100) == speed


def test_a_roof_of_nothing_is_refused():
    for given in ((0, 1, 1), (1, -1, 1), (1, 1, 0)):
        with pytest.raises(ValueError, match="intensity, bandwidth and peak must be above zero"):
            measure.roof(*given)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_traffic_lists_each_call_and_no_view(device):
    x = torch.empty(6, 4, device=device)  # 96 bytes
    made = measure.traffic(lambda: (x.T.reshape(4, 6)[:2] * 2.0).sum(dim=None))
    named = {call.name: call for call in made}
    assert "t" not in named and "select" not in named and "slice" not in named
    assert named["mul"] == ("mul", 48, 48)
    assert named["sum"] == ("sum", 48, 4)


def test_traffic_counts_what_is_done_in_place_and_into_a_buffer():
    x, out = torch.ones(8), torch.empty(8)  # 32 bytes each
    (added,) = measure.traffic(lambda: out.add_(x))
    assert (added.read, added.written) == (64, 32)
    (into,) = measure.traffic(lambda: torch.square(x, out=out))
    assert (into.read, into.written) == (32, 32)


def test_traffic_needs_no_gradient():
    x = torch.ones(8, requires_grad=True)
    assert [call.name for call in measure.traffic(lambda: x * 2)] == ["mul"]


def test_rms_norm_is_four_calls_that_read_all_of_x():
    x = torch.empty(16, 64, device=META)
    made = measure.traffic(lambda: rms_norm(x, torch.empty(64, device=META)))
    assert [call.name for call in made if call.read >= x.nbytes] == ["pow", "mean", "mul", "mul"]


# --- the profiler


def test_the_parts_of_a_block_share_its_time(capfd):
    block = LlamaBlock(16, 24, 2)
    threads = torch.get_num_threads()
    shares = measure.time_by_part(block, torch.randn(1, 4, 16), runs=2)
    names = {name for name, _ in block.named_modules()}
    assert set(shares) == names
    assert sum(shares.values()) == pytest.approx(1)
    assert all(share >= 0 for share in shares.values())
    assert torch.get_num_threads() == threads
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in block.modules())
    assert capfd.readouterr() == ("", "")


def test_a_module_that_fails_leaves_threads_and_hooks_as_they_were():
    block, threads = LlamaBlock(16, 24, 2), torch.get_num_threads()
    with pytest.raises(ValueError, match="one number per feature of x"):
        measure.time_by_part(block, torch.randn(1, 4, 15), runs=1)
    assert torch.get_num_threads() == threads
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in block.modules())


# --- the figure


def test_the_roofline_figure_draws_what_was_measured():
    timed = measure.Timing(2e-3, 0.0, 5)
    cost = measure.Cost(operations=4_000_000, bytes=8_000_000)
    figure = plots.roofline_figure(1e10, 1e11, {("RMSNorm", 1): (cost, timed)})
    (ax,) = figure.axes
    drawn, ridge, point = ax.get_lines()
    assert drawn.get_xydata().tolist() == [[0.1, 1e9], [10.0, 1e11], [1e4, 1e11]]
    assert ridge.get_xdata()[0] == 10
    assert point.get_xydata().tolist() == [[0.5, pytest.approx(2e9)]]
    assert point.get_label() == "RMSNorm, 1 token" and point.get_markerfacecolor() == "white"
    assert not any(character.isdigit() for character in figure.alt.replace("1 token", ""))
    low, high = ax.get_ylim()
    assert low < 2e9 and high > 1e11
