"""Intervals of a program: errors that kernels share, hosts that differ, and how sure a regime is."""

from __future__ import annotations

from math import sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.timeline import Call, Tensor
from ridgeline.machines.defaults import defaults
from ridgeline.prediction.queue import DEVICE_BOUND, HOST_BOUND, HOST_BOUND_FROM, RUN, Queue, regime_of
from ridgeline.prediction.traced.intervals import HIGH, LOW, device_width, regime_confidence, wall_end
from ridgeline.programs.aten import count


def op(family: str, time: float, width: float) -> Any:
    return SimpleNamespace(family=family, time=time, low=time - width, high=time + width)


def queue(cost: float, time: float, launches: int = 50) -> Queue:
    """So many equal launches."""
    ints, floats = np.full(launches, RUN), np.ones(launches)
    return Queue(ints, cost * floats, time * floats, 0 * floats, np.zeros(launches, int), np.arange(launches))


def test_widths_add_within_a_family_and_partly_between_families() -> None:
    shared = defaults("program_error")["correlation"]
    assert 0 < shared < 1
    assert device_width([op("gemm", 1, 0.1)] * 4, HIGH) == pytest.approx(0.4)
    two = [op("gemm", 1, 0.3), op("norm", 1, 0.4)]
    assert device_width(two, LOW) == pytest.approx(sqrt((1 - shared) * 0.25 + shared * 0.49))


def test_many_families_do_not_make_a_program_certain() -> None:
    """Were errors independent, a hundred families of equal width would be ten times as certain as one."""
    many = device_width([op(str(place), 1, 0.1) for place in range(100)], HIGH) / 100
    assert many == pytest.approx(0.1 * sqrt(defaults("program_error")["correlation"]), rel=0.02)


@given(st.floats(1e-6, 1e-3), st.floats(1e-6, 1e-3))
def test_the_regime_of_a_queue_is_that_of_its_wall_and_busy_time(cost: float, time: float) -> None:
    given_queue = queue(cost, time)
    assert given_queue.regime == regime_of(given_queue.wall(), given_queue.busy)
    critical = given_queue.critical_host()
    assert critical is not None
    assert critical == pytest.approx(min(max(HOST_BOUND_FROM * time / cost, 1 / 64), 64), rel=0.05)
    if abs(critical - 1) > 0.05:
        assert (given_queue.regime == HOST_BOUND) == (critical < 1)


def test_gaps_between_queued_kernels_are_not_waits_for_the_host() -> None:
    """As in a replayed graph of small kernels: nothing that a faster host would change."""
    spaced = Queue(*queue(0.0, 2e-6).__dict__.values())
    spaced = Queue(spaced.kind, spaced.cost, spaced.time, 0.5 * spaced.time, spaced.stream, spaced.place)
    assert spaced.wall() > 1.4 * spaced.time.sum()
    assert spaced.regime == DEVICE_BOUND


def test_the_confidence_is_even_at_the_limit_and_grows_with_the_distance() -> None:
    host, device = {LOW: 1 / 1.5, HIGH: 1.5}, {LOW: 0.9, HIGH: 1.1}
    costs = [1.1e-5, 1.5e-5, 3e-5, 9e-5]
    sure = [regime_confidence(queue(cost, 1e-5), host, device) for cost in costs]
    assert sure[0] == pytest.approx(0.5, abs=0.02)
    assert sure == sorted(sure)
    assert sure[-1] > 0.99
    # at the high end of the host's interval with certain kernels: 90 % of hosts are faster
    certain = {LOW: 1.0, HIGH: 1.0}
    assert regime_confidence(queue(1.1e-5 / 1.5, 1e-5), host, certain) == pytest.approx(0.9, abs=0.01)


def test_the_wall_time_follows_whichever_sets_it() -> None:
    host_bound, device_bound = queue(2e-5, 1e-6), queue(1e-6, 2e-5)
    assert wall_end(host_bound, 1.5, 1.1) == pytest.approx(1.5 * host_bound.wall(), rel=0.01)
    assert wall_end(device_bound, 1.5, 1.1) == pytest.approx(1.1 * device_bound.wall(), rel=0.01)
    assert wall_end(device_bound, 1 / 1.5, 0.9) == pytest.approx(0.9 * device_bound.wall(), rel=0.01)


def test_sizes_far_from_all_timings_do_not_make_an_interval_of_a_thousand_times() -> None:
    """The gradient of images of three channels in fp32: its timings spread over a factor of eight, and it is five doublings away."""
    dy, x, weights = (Tensor(shape, "fp32") for shape in ((8, 8, 256, 256), (8, 3, 256, 256), (8, 3, 3, 3)))
    mask = (True, False, False)
    call = Call("aten::convolution_backward", (dy, x, weights, (8,), (1, 1), (1, 1), (1, 1), False, (0, 0), 1, mask))
    made = count(call).work
    assert made is not None
    predicted = rl.predict(made, rl.machine("h200-sxm"))
    assert predicted.high < 10 * predicted.time
