"""Charts of what was measured: bandwidth by working set, products by size."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from legible import assert_legible
from ridgeline.app.reports.measured import ceiling_pictures
from ridgeline.core.errors import InputError
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.programs import ops
from ridgeline.render.charts import measured
from ridgeline.render.draw import mpl


def two_cores() -> Machine:
    """Caches of 32 KiB and 1 MiB for each core, and 16 MiB for both together."""
    sizes = {"l1": (2.0**15, 2), "l2": (2.0**20, 2), "l3": (2.0**24, 1)}
    caches = [Level(name, Figure("B/s"), Figure("B", derived=size), instances=n) for name, (size, n) in sizes.items()]
    return Machine("here", kind="cpu", units={"core": 2}, levels=(*caches, Level("memory", Figure("B/s"), Figure("B"))))


def swept(mix: str, threads: int, sizes: Iterable[float]) -> list[Observation]:
    """Bandwidth by level: 80, 40, 20 and 10 GB/s for each core."""

    def seconds(size: float) -> float:
        rate = next(rate for end, rate in ((2**15, 80e9), (2**20, 40e9), (2**24, 20e9), (2**50, 10e9)) if size <= end)
        return size / rate

    return [
        Observation(f"{mix} {size}", "l1", (seconds(size),), Work(moves={("main", "a", "read"): size * threads}), {"mix": mix, "bytes": size * threads, "threads": threads})
        for size in sizes
    ]  # fmt: skip


STEPS = tuple(2.0**power for power in range(10, 28))
MIDDLES = (2.0**13, 2.0**18, 2.0**22, 2.0**26)


def test_one_thread_is_drawn_with_the_caches_that_one_thread_sees() -> None:
    chart = measured.working_sets(two_cores(), swept("read", 1, STEPS))
    assert [(mark.value, mark.label) for mark in chart.marks] == [
        (2.0**15, "L1 32 KiB"),
        (2.0**20, "L2 1 MiB"),
        (2.0**24, "L3 16 MiB"),
    ]
    assert ", 1 core," in chart.subtitle


def test_cores_together_are_drawn_over_the_share_that_each_of_them_has() -> None:
    chart = measured.working_sets(two_cores(), [*swept("copy", 2, MIDDLES), *swept("read", 2, MIDDLES)])
    assert [line.label for line in chart.lines if line.label] == ["read", "copy"]
    read = [point for line in chart.lines if line.group == "read" for point in line.points]
    assert [x for x, _ in read] == list(MIDDLES)
    assert [y for _, y in read] == pytest.approx([160e9, 80e9, 40e9, 20e9])
    assert [mark.value for mark in chart.marks] == [2.0**15, 2.0**20, 2.0**23]
    assert chart.marks[-1].label == "L3 8 MiB / 2 cores"


def test_no_line_crosses_a_cliff_without_points() -> None:
    """Sizes 8 KiB and 256 KiB lie on two sides of the L1: nothing says where between them the bandwidth falls."""
    chart = measured.working_sets(two_cores(), swept("read", 2, MIDDLES))
    assert all(len(line.points) == 1 for line in chart.lines)
    dense = measured.working_sets(two_cores(), swept("read", 2, STEPS))
    assert [len(line.points) for line in dense.lines] == [len(STEPS)]
    assert len([point for point in dense.points if point.role == "sample"]) == len(STEPS)


def test_the_read_sweep_of_one_core_stands_beside_and_shows_the_levels() -> None:
    chart = measured.working_sets(two_cores(), [*swept("read", 2, STEPS), *swept("read", 1, STEPS)])
    assert [(line.label, line.role) for line in chart.lines] == [("read", "series"), ("read, 1 core", "target")]
    ends = [point for point in chart.points if point.role == "ridge"]
    assert [point.label for point in ends] == ["L1 80 GB/s", "L2 40 GB/s", "L3 20 GB/s", "memory 10 GB/s"]
    assert [point.y for point in ends] == pytest.approx([80e9, 40e9, 20e9, 10e9])
    # between the last size that a level serves and the next one swept
    assert [point.x for point in ends[:-1]] == pytest.approx([2.0**15.5, 2.0**20.5, 2.0**24.5])
    assert {mark.value for mark in chart.marks} == {2.0**15, 2.0**20, 2.0**24, 2.0**23}


@pytest.mark.parametrize("sizes", [(), (4096.0,)])
def test_a_sweep_of_no_two_sizes_is_refused_and_leaves_the_other_pictures(sizes: tuple[float, ...]) -> None:
    observations = [*swept("read", 1, sizes), *swept("copy", 1, sizes)]
    with pytest.raises(InputError, match="no sweep to draw"):
        measured.working_sets(two_cores(), observations)
    assert ceiling_pictures(two_cores(), observations) == []


def test_products_on_one_core_and_on_all_are_two_lines() -> None:
    observations = [
        Observation(f"gemm {size} {threads}", "vector.fp32", (1.0,), ops.gemm(size, size, size, dtype="fp32"), {"size": size, "threads": threads, "library": "BLAS", "dtype": "fp32"})
        for size in (256, 512)
        for threads in (1, 2)
    ]  # fmt: skip
    chart = measured.gemm_sizes(two_cores(), observations)
    assert [(line.label, len(line.points)) for line in chart.lines] == [
        ("fp32 BLAS, 1 core", 2),
        ("fp32 BLAS, 2 cores", 2),
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_working_set_chart_can_be_read(theme: str) -> None:
    observations = [item for mix in measured.MIXES for item in swept(mix, 2, STEPS)] + swept("read", 1, STEPS)
    assert_legible(mpl.draw(measured.working_sets(two_cores(), observations), theme))
