"""Machines that no kernel was timed on: what a call takes at least, and sorts, selections and prefix sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.families import Key, formula
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.work import Work
from ridgeline.machines.files import names
from ridgeline.prediction.answer_line import answer_line, bound_text, sides
from ridgeline.prediction.host import graph_node_share

WITHOUT_TIMINGS = [name for name in names() if rl.machine(name).kind != "gpu"]


@pytest.mark.parametrize("name", WITHOUT_TIMINGS)
def test_every_kernel_costs_something_to_start(name: str) -> None:
    """Nothing takes picoseconds; the interval says that the start is assumed, and a large kernel is not changed by it."""
    small = rl.predict(rl.ops.gelu(n=34), name)
    assert small.bound == "overhead"
    assert 1e-6 < small.time < 2e-5
    assert small.low < small.time / 3
    assert small.high > 3 * small.time
    large = rl.predict(rl.ops.gemm(m=8192, n=8192, k=8192), name)
    assert large.high < 2.05 * large.time
    assert rl.predict(rl.ops.gelu(n=34), name, launch=0.0).time < 1e-8
    given = rl.predict(rl.ops.gelu(n=34), name, launch=1e-5)
    assert given.high <= 2 * given.time  # what the caller gives is no guess


@pytest.mark.parametrize(
    ("op", "sizes", "nanoseconds"),
    [
        ("sort", {"rows": 1, "cols": 1_000_000}, (78, 137)),
        ("sort", {"rows": 1000, "cols": 1000}, (38, 65)),
        ("sort", {"rows": 1000, "cols": 100}, (29, 32)),
        ("topk", {"rows": 1000, "cols": 1000, "k": 8}, (2.1, 2.7)),
        ("topk", {"rows": 1, "cols": 1_000_000, "k": 64}, (2.3, 2.7)),
        ("topk", {"rows": 1000, "cols": 1000, "k": 250}, (15, 25)),
        ("topk", {"rows": 1, "cols": 4_000_000, "k": 2_000_000}, (47, 91)),
        ("cumsum", {"rows": 64, "cols": 30_000}, (0.56, 1.14)),
    ],
)
def test_a_core_sorts_selects_and_sums_as_one_that_was_timed(
    op: str, sizes: dict[str, int], nanoseconds: tuple[float, float]
) -> None:
    """Nanoseconds per value of PyTorch 2.13 on one core of a Xeon (2.1 GHz): the fastest and slowest of fp32, bf16 and int64."""
    xeon = rl.machine("xeon-8480plus")
    core = Machine("one", kind="cpu", units={"core": 1}, peaks=xeon.peaks, levels=xeon.levels)
    made = rl.predict(getattr(rl.ops, op)(**sizes, dtype="fp32"), core, launch=0.0)
    each = np.array([made.low, made.time, made.high]) / (sizes["rows"] * sizes["cols"]) * 1e9
    assert each[0] <= nanoseconds[0]
    assert nanoseconds[1] <= each[2]
    assert nanoseconds[0] / 1.7 < each[1] < nanoseconds[1] * 1.7


def test_one_row_is_sorted_by_one_core_and_rows_by_all() -> None:
    one, many = (float(rl.predict(rl.ops.sort(rows=rows, cols=100_000), "epyc-9654").time) for rows in (1, 96))
    assert many == pytest.approx(one, rel=1e-3)
    assert float(rl.predict(rl.ops.sort(rows=192, cols=100_000), "epyc-9654").time) == pytest.approx(2 * many, rel=1e-3)
    stated = rl.predict(rl.ops.sort(rows=1, cols=1_000_000), "epyc-9654")
    copied = rl.predict(rl.ops.copy(n=1_000_000, dtype="fp32"), "epyc-9654")
    assert stated.time > 50 * copied.time
    assert "comparison" in str(stated.expected[0].confidence)


def test_rows_that_are_normalized_say_nothing_of_rows_that_are_sorted() -> None:
    xeon = rl.machine("xeon-8480plus")
    rows = {name: c.default for name, c in formula(Key("rows", "fp32"), "cpu").coefficients.items()}
    timed = replace(xeon, fitted={Key("rows", "fp32"): Fitted(rows, 0.1, 0.2, 0.9, 1.1, 20, "a test")})
    assert rl.predict(rl.ops.softmax(rows=8, cols=8192, dtype="fp32"), timed).expected[0].kernels
    sort = rl.ops.sort(rows=8, cols=8192)
    assert rl.predict(sort, timed).time == rl.predict(sort, xeon).time


@pytest.mark.parametrize("name", ["tpu-v5e", "gaudi3", "trainium2"])
def test_a_sort_without_any_timing_is_a_guess_and_says_so(name: str) -> None:
    made = rl.predict(rl.ops.sort(rows=1000, cols=10_000), name)
    assert "a guess" in str(made.expected[0].confidence)
    assert made.high > 8 * made.time
    assert made.low < made.time / 2


def test_only_gpus_replay_graphs() -> None:
    assert graph_node_share(rl.machine("h200-sxm")) < 1.0
    assert {graph_node_share(rl.machine(name)) for name in WITHOUT_TIMINGS} == {1.0}


def test_a_sort_that_waits_for_its_comparisons_is_neither_memory_nor_launch_bound() -> None:
    """Its comparisons took 94 % of the expected time, and the answer was `memory-bound (DDR)`, or `overhead-bound (launch)` for fewer rows."""
    for rows in (100, 1000):
        made = rl.predict(rl.ops.sort(rows=rows, cols=1000), "xeon-8480plus")
        assert " · latency-bound (steps one after the other) · " in answer_line(made)
    assert "overhead-bound (launch)" in answer_line(rl.predict(rl.ops.sort(rows=1, cols=10), "xeon-8480plus"))
    flat = rl.predict(rl.ops.sort(rows=1000, cols=1000), "xeon-8480plus", efficiency=0.8)
    assert "memory-bound (DDR)" in answer_line(flat)  # the caller's efficiency is of bytes alone
    several = rl.predict(rl.ops.sort(rows=np.array([1, 1000]), cols=np.array([10, 1000])), "xeon-8480plus")
    assert sides(several).tolist() == ["overhead", "latency"]
    assert [row["latency_bound"] for row in several.rows()] == [False, True]


@pytest.mark.parametrize("dtype", ["tf32", "fp64", "int8"])
@pytest.mark.parametrize("size", [1024, 8192])
@pytest.mark.parametrize(
    "pair", [("a100-sxm-40gb", "a100-sxm-80gb"), ("a100-pcie-80gb", "a100-sxm-80gb"), ("h100-sxm", "h200-sxm")]
)
def test_products_in_a_format_that_was_not_timed_agree_on_gpus_of_one_chip(
    dtype: str, size: int, pair: tuple[str, str]
) -> None:
    """Timings of the format elsewhere say more than those of another format here: int8 took an A100 of 80 GB 2.1 ms, one of 40 GB 3.0."""
    work = rl.ops.gemm(m=size, n=size, k=size, dtype=dtype)
    first, second = (float(rl.predict(work, name).time) for name in pair)
    assert first == pytest.approx(second, rel=0.15)
    assert rl.predict(work, pair[0]).expected[0].label == "transferred"


@pytest.mark.parametrize("rows", [2, 60, 114, 127, 128, 1000])
def test_sorts_of_longer_rows_take_no_less(rows: int) -> None:
    """Four kernels lie between a short row among few and a long one among many; up to 32 values took an H100 longer than 4096."""
    cols = np.array([2, 11, 32, 33, 128, 129, 267, 4096, 4097, 4500])
    times = np.asarray(rl.predict(rl.ops.sort(rows=rows, cols=cols, dtype="fp64"), "h100-pcie").time)
    assert np.all(np.diff(times) >= -1e-9 * times[:-1])


@pytest.mark.parametrize("name", ["h200-sxm", "rtx-4090"])
def test_sorts_on_chip_wait_for_their_steps_and_not_for_the_memory(name: str) -> None:
    """Sorting 4096 rows of 4096 values takes an H200 a tenth of its bandwidth, and was memory-bound: twice the bandwidth made it 1.91x faster."""
    for work in (
        rl.ops.sort(rows=4096, cols=4096),
        rl.ops.topk(rows=4096, cols=4096, k=8),
        rl.ops.cumsum(rows=4096, cols=4096),
    ):
        made = rl.predict(work, rl.machine(name))
        assert bound_text(made) == "latency-bound (steps one after the other)"
        (row,) = made.rows()
        assert row["latency_bound"] is True
        assert row["bound"] == "memory"  # the side of the roofline
    long = rl.predict(rl.ops.sort(rows=16, cols=1_000_000), rl.machine(name))  # in passes over the memory
    assert "memory-bound" in bound_text(long)


@pytest.mark.parametrize("work", [rl.ops.sort(rows=4096, cols=4096), rl.ops.topk(rows=4096, cols=4096, k=8)])
def test_several_sorts_at_once_wait_for_the_steps_of_each(work: Work) -> None:
    one, several = (rl.predict(each, "h200-sxm").time for each in (work, work.batch(4)))
    assert 3.3 * one < several <= 4 * one  # launches are not repeated


def test_two_boards_of_one_chip_compute_alike_in_fp64() -> None:
    """NVIDIA prints no fp64 rate of the GB300, which was said to do no fp64 arithmetic."""
    work = rl.ops.gemm(m=4096, n=4096, k=4096, dtype="fp64")
    times = [float(rl.predict(work, name).time) for name in ("b300-sxm", "gb300")]
    assert times[0] == pytest.approx(times[1], rel=0.1)
