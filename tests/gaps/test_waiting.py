"""What the host costs: the wait of the device, where it is known, and the part of a gain that it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from advice_samples import achievable, top
from gap_samples import H200
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.documents import to_document
from ridgeline.core.figure import Figure
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.gaps.advice import Advice, advise
from ridgeline.gaps.gap import Gap
from ridgeline.gaps.item import Item
from ridgeline.gaps.join import Pair
from ridgeline.gaps.sentences import findings
from ridgeline.gaps.signs import signs
from ridgeline.prediction.predict import predict
from ridgeline.programs import ops
from strategies import law

MANY = replace(ops.add(1024 * 1000, dtype="fp32"), name="many")


def dispatching(each: float | None) -> Machine:
    """An H200 whose host takes so long to send a kernel, or of which nobody knows."""
    known = Figure("s") if each is None else Figure("s", measured=each, measurement="by hand", source="a test")
    return replace(H200, dispatch=known)


def launched(machine: Machine, time: float, kernels: int = 1000, **settings: Any) -> Gap:
    """So many kernels of one step, `time` each."""
    done, moved = {"vector.fp32": 1024e3 / kernels}, {"hbm": 12288e3 / kernels}  # each does its part of the step
    sent = {name: value for name, value in settings.items() if name != "host_wait"}
    kernel = Observation("many", "many", (time,), kernel="add", settings=sent, flops=done, bytes=moved)
    last = replace(kernel, settings=settings)
    return Gap.of(predict(MANY, machine), Pair((0,), (*(kernel,) * (kernels - 1), last), "name"))


def advised(gap: Gap) -> dict[str, Advice]:
    return {item.rule: item for item in advise(gap)}


def test_kernels_sent_one_by_one_wait_for_the_host() -> None:
    """A thousand kernels of 2.1 us, sent every 5 us: 5 ms in all, 2.9 of them waiting. One kernel is sent in 5 us."""
    gap = launched(dispatching(5e-6), 2.1e-6, sent="one by one")
    assert gap.waiting == pytest.approx(1000 * 5e-6 - 2.1e-3)
    merged = top(gap)
    one_kernel = achievable(MANY)
    assert merged.rule == "tiny kernels"
    assert merged.device == pytest.approx(2.1e-3 - one_kernel)
    assert merged.host == pytest.approx(2.9e-3 - max(5e-6 - one_kernel, 0.0))
    assert merged.gain == pytest.approx((merged.device or 0) + (merged.host or 0))
    assert to_document(merged)["host_gain_us"] == pytest.approx(1e6 * (merged.host or 0))
    assert to_document(merged)["device_gain_us"] == pytest.approx(1e6 * (merged.device or 0))
    assert any(text.startswith("host launch overhead: 2.9 ms of the gain (model: dispatch cost 5 us") for text in merged.evidence)  # fmt: skip
    graph = advised(gap)["launches"]
    queued = 1000 * 1.4646874e-6 * (1 - 0.46)
    assert graph.device == pytest.approx(queued)
    assert graph.host == pytest.approx(2.9e-3)
    assert any(
        "host launch overhead adds 2.9 ms to the kernel time over 1,000 launches" in text for text in findings(gap)
    )


def test_a_graph_does_not_wait_for_the_host_and_needs_no_capture() -> None:
    gap = launched(dispatching(5e-6), 2.1e-6, sent="graph")
    assert gap.waiting == 0.0
    merged = top(gap)
    assert (merged.rule, merged.host) == ("tiny kernels", 0.0)
    assert merged.gain == pytest.approx(2.1e-3 - achievable(MANY))
    assert merged.missing == ()
    assert {item.move for item in advise(gap)}.isdisjoint({"capture a CUDA graph"})


def test_where_nobody_says_how_kernels_are_sent_the_host_is_priced_apart() -> None:
    """A profiler that runs kernel by kernel sees no host: its price is named, and not promised."""
    gap = launched(dispatching(5e-6), 2.1e-6)
    merged = top(gap)
    assert (gap.sent, merged.host) == (None, None)
    assert merged.gain == pytest.approx(2.1e-3 - achievable(MANY))
    assert merged.missing == ("sent",)
    assert any(text.startswith("host launch overhead: 2.9 ms more if launched one by one") for text in merged.evidence)  # fmt: skip
    assert any(text.startswith("if launched one by one, host launch overhead adds 2.9 ms") for text in findings(gap))


def test_a_figure_that_is_not_there_is_named_and_not_zero() -> None:
    gap = launched(dispatching(None), 2.1e-6, sent="one by one")
    merged = top(gap)
    assert (gap.waiting, merged.host) == (None, None)
    assert merged.missing == ("dispatch",)
    assert to_document(merged)["host_gain_us"] is None
    assert "waiting" not in signs(gap)


@pytest.mark.parametrize(("idle", "each", "kind"), [(1e-3, 3.1e-6, "trace"), (10e-3, 5e-6, "model")])
def test_a_trace_bounds_what_the_host_takes_from_above(idle: float, each: float, kind: str) -> None:
    """2.1 ms of kernels and 1 ms between them: one every 3.1 us, less than the 5 us of the figure; 10 ms are more."""
    gap = launched(dispatching(5e-6), 2.1e-6, sent="one by one", host_wait=idle)
    assert gap.host is not None
    assert gap.host.each == pytest.approx(each)
    assert gap.host.evidence.startswith(kind)
    assert gap.host.at_most == (kind == "trace")
    assert gap.waiting == pytest.approx(1000 * each - 2.1e-3)
    alone = launched(dispatching(None), 2.1e-6, sent="one by one", host_wait=idle)
    assert alone.waiting == pytest.approx(idle)
    assert "at most" in Item(alone, tuple(advise(alone))).sentence.partition("plus ")[2]
    assert "at most" not in Item(launched(dispatching(5e-6), 2.1e-6, sent="one by one"), ()).sentence


def test_kernels_beyond_a_launch_can_wait_for_a_slow_host_too() -> None:
    """Five kernels of 20 us sent every 30 us: 50 us of waiting, which a graph takes away; fast hosts are no cause."""
    slow = launched(dispatching(30e-6), 20e-6, 5, sent="one by one")
    advice = advised(slow)["host-bound"]
    assert (advice.status, advice.move, advice.device) == ("shown", "capture a CUDA graph", 0.0)
    assert advice.gain == pytest.approx(5 * 30e-6 - 5 * 20e-6)
    for other in (
        launched(dispatching(21e-6), 20e-6, 5, sent="one by one"),  # 5 % of the time
        launched(dispatching(30e-6), 20e-6, 5),
        launched(dispatching(30e-6), 20e-6, 5, sent="graph"),
        launched(dispatching(None), 20e-6, 5, sent="one by one"),
        launched(dispatching(300e-6), 20e-6, 1, sent="one by one"),  # what stands before it decides
    ):
        assert "host-bound" not in advised(other)


@law(100)
@given(st.integers(10, 500), st.floats(1e-7, 5e-6), st.floats(1e-7, 5e-5))
def test_device_and_host_gain_are_the_walls_before_and_after(kernels: int, time: float, each: float) -> None:
    """wall = max(device, launches x each), on both sides."""
    for item in advise(launched(dispatching(each), time, kernels, sent="one by one")):
        if item.gain is None or item.host is None:
            continue
        device = kernels * time
        before, after = max(device, kernels * each), max(device - (item.device or 0.0), each)
        assert item.gain == pytest.approx(before - after, rel=1e-6, abs=1e-12)
