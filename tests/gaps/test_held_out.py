"""Held-out pairs of kernels with planted faults, as an H200 counted and timed them: the causes and gains of today.

The rules were mended with this record at hand, so these are no measure of how well they do on other kernels.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from ridgeline.gaps import settle as records
from ridgeline.gaps.advice import Advice
from ridgeline.gaps.kernels import report_of_kernels
from ridgeline.machines.load import load
from ridgeline.profilers import load as observe
from ridgeline.programs import cases

HELD_OUT = Path(__file__).parents[2] / "examples" / "faults" / "held_out"
H200 = load("h200-sxm")
MAX_RATIO = 1.5  # of a predicted gain over the actual one, or of that over the predicted one

RULES = {
    "fir": "uncoalesced",
    "city": "no tiling",
    "chunks": "bank conflicts",
    "bags": "low occupancy",
    "nearest": "spills",
    "groups": "contended atomics",
    "classes": "shared atomics",
    "dequant": "hot slice",
    "field": "tail wave",
    "ragged": "uneven blocks",
    "blend": "thin loads",
    "search": "few in flight",
    "relax": "divergence",
    "above": "repeated loads",
    "drift": "wide elements",
    "resample": "extra bytes",
    "poly": "extra flops",
    "morton": "integer overhead",
    "prefix": "barriers",
    "channels": "few blocks",
    "turn": "small blocks",
    "codes": "local arrays",
    "bilateral": "costly functions",
    "running": "low occupancy",
    "columns": "scratch buffer",
    "jacobi": "cache thrash",
    "sparse": "divergence",
}
# Only the work that is needed shows that FLOPs or bytes are too many.
NEEDS_A_CASE = {"drift", "resample", "columns", "jacobi", "poly"}
Found = Mapping[str, tuple[Advice, ...]]


def table(name: str) -> list[dict[str, str]]:
    with (HELD_OUT / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


TRUTH = {row["pair"]: row for row in table("truth.csv")}


@pytest.fixture(scope="module")
def stated() -> Found:
    """With the work of each kernel stated as a case."""
    found = records.reconcile(cases.read(HELD_OUT / "cases.csv"), H200, observe.load(HELD_OUT / "record/kernels.csv"))
    return {item.name: tuple(item.advice) for item in found.report.items}


@pytest.fixture(scope="module")
def counted() -> Found:
    """By the counters alone."""
    kernels = report_of_kernels(observe.load(HELD_OUT / "record/kernels.csv"), H200).kernels
    return {kernel.name: kernel.advice for kernel in kernels}


@pytest.fixture(scope="module")
def actual() -> dict[str, float]:
    """Seconds that each fix saved, by CUDA events."""
    times = {row["kernel"]: 1e-6 * float(row["median_us"]) for row in table("record/times.csv")}
    return {pair: times[row["faulty"]] - times[row["fixed"]] for pair, row in TRUTH.items()}


def test_every_pair_is_in_the_record(stated: Found, counted: Found) -> None:
    kernels = {row[version] for row in TRUTH.values() for version in ("faulty", "fixed")}
    assert set(RULES) == set(TRUTH)
    assert set(stated) == set(counted) == kernels


@pytest.mark.parametrize("pair", RULES)
def test_the_planted_fault_is_first_and_shown(stated: Found, pair: str) -> None:
    first = stated[TRUTH[pair]["faulty"]][0]
    assert (first.rule, first.status) == (RULES[pair], "shown")


@pytest.mark.parametrize("pair", [pair for pair in RULES if pair not in NEEDS_A_CASE])
def test_counters_alone_show_it_where_no_count_is_in_excess(counted: Found, pair: str) -> None:
    first = counted[TRUTH[pair]["faulty"]][0]
    assert (first.rule, first.status) == (RULES[pair], "shown")


@pytest.mark.parametrize("pair", sorted(NEEDS_A_CASE))
def test_without_a_case_no_excess_is_claimed(counted: Found, pair: str) -> None:
    assert RULES[pair] not in {item.rule for item in counted[TRUTH[pair]["faulty"]]}


def test_the_fixed_kernel_does_not_have_the_fault(stated: Found) -> None:
    for pair, row in TRUTH.items():
        assert RULES[pair] not in {item.rule for item in stated[row["fixed"]] if item.shown}, pair


def test_every_predicted_gain_is_near_the_actual_one(stated: Found, counted: Found, actual: dict[str, float]) -> None:
    for pair, row in TRUTH.items():
        for found in (stated,) if pair in NEEDS_A_CASE else (stated, counted):
            gain = found[row["faulty"]][0].gain
            assert gain is not None
            assert 1 / MAX_RATIO <= gain / actual[pair] <= MAX_RATIO, (pair, gain, actual[pair])
