"""How sums of columns are split over threads and blocks: by hand, and as the kernels that ran for timed sums say."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.families import columns
from ridgeline.programs.ops.pooling import thread_steps

TIMED = Path(__file__).parents[2] / "benchmarks" / "data" / "h200-programs-calibration.csv.gz"


def test_blocks_are_split_where_the_timed_sums_cleared_a_counter_first() -> None:
    """A sum over several blocks is two kernels: the counter by which they meet is set to zero before."""
    with gzip.open(TIMED, "rt") as file:
        timed = [row for row in csv.DictReader(file) if row["op"] == "sum_columns"]
    results, length, kernels = (np.array([float(row[name]) for row in timed]) for name in ("cols", "rows", "kernels"))
    _, parts = columns.plan(results, length, 132.0)
    assert len(timed) == 480
    assert np.sum((parts > 1) != (kernels == 2)) == 1  # 2046 x 126, just below the limit


@pytest.mark.parametrize(
    ("results", "length", "each", "parts"),
    [
        (4096, 63, 63, 1),  # four results a thread, four threads a column: from 4 x 16 elements on they share it
        (4096, 64, 16, 1),
        (4096, 1023, 1023 / 4, 1),
        (4096, 1024, 16, 16),  # 256 elements a thread are split over blocks, 16 for each
        (4098, 2047, 2047 / 8, 1),  # two at once: eight threads a column
        (4097, 255, 255, 1),  # one by one: sixteen
        (4097, 256, 16, 1),
    ],
)
def test_elements_of_a_thread_and_parts_of_a_column(results: int, length: int, each: float, parts: float) -> None:
    assert columns.plan(float(results), float(length), 132.0) == pytest.approx((each, parts))


def test_the_limits_are_where_the_plan_changes() -> None:
    for results in (4096.0, 4098.0, 4097.0):
        shared, split = columns.shared_from(results, 8.0)
        assert columns.plan(results, shared - 1, 132.0)[0] == shared - 1
        assert columns.plan(results, shared, 132.0)[0] < shared / 2
        assert columns.plan(results, split - 1, 132.0)[1] == 1
        assert columns.plan(results, split, 132.0)[1] > 1


def test_threads_of_pools_take_places_channels_and_taps_one_after_the_other() -> None:
    # 7 x 7 outputs of 256 channels: 4 x 4 x 64 threads, so 2 x 2 places and 4 channels of 9 taps each; a block per image
    steps = thread_steps(15.0, 256.0, 7.0, 7.0, 9.0, 4.0, 2.0)
    assert steps == {"steps": 4 * 4 * 9.0, "fetched": 4 * 4 * 4.0, "blocks": 15.0, "lanes": 64.0, "side": 7.0}
    # 56 x 56 of 64: 32 along the width and 32 channels; two rows a block
    steps = thread_steps(1.0, 64.0, 56.0, 56.0, 9.0, 4.0, 2.0)
    assert steps == {"steps": 2 * 2 * 2 * 9.0, "fetched": 2 * 2 * 2 * 4.0, "blocks": 28.0, "lanes": 32.0, "side": 56.0}


def test_channels_of_a_sector_are_fetched_with_the_first_of_them() -> None:
    """Eight threads along channels of two bytes fill half a sector of 32 bytes: every second step finds its own there."""
    assert thread_steps(1.0, 14.0, 9.0, 9.0, 9.0, 1.0, 2.0)["fetched"] == 2 * 2 * 2 * 0.5


def test_windows_that_overlap_fetch_less_than_they_look_at() -> None:
    """A pixel that another window of the block has read is in the cache: 4 fresh ones of 9 with strides of 2, 16 of 16 without overlap."""
    kernels = [
        rl.ops.max_pool2d(4, 64, 32, 32, size, stride, 0, layout="nhwc").kernels[0] for size, stride in ((2, 2), (4, 4))
    ]
    for kernel in kernels:
        assert kernel.sizes["fetched"] == kernel.sizes["steps"]
    overlapping = rl.ops.max_pool2d(4, 64, 33, 33, 3, 2, 0, layout="nhwc").kernels[0]
    assert overlapping.sizes["fetched"] == pytest.approx(overlapping.sizes["steps"] * 33**2 / 16**2 / 9)
