"""Held-out pairs of kernels with planted faults, as an H200 counted and timed them: the causes and gains of today.

The rules were mended with these records at hand, so these are no measure of how well they do on other kernels.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import pytest

from ridgeline.gaps import settle as records
from ridgeline.gaps.advice import Advice
from ridgeline.gaps.kernels import report_of_kernels
from ridgeline.machines.load import load
from ridgeline.profilers import load as observe
from ridgeline.programs import cases

FAULTS = Path(__file__).parents[2] / "examples" / "faults"
MAX_RATIO = 1.5  # of a predicted gain over the actual one, or of that over the predicted one

FIRST_SET = {
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
SECOND_SET = {
    "matvec": "uncoalesced",
    "push": "uncoalesced",
    "hops": "no tiling",
    "walsh": "bank conflicts",
    "votes": "bank conflicts",
    "curve": "low occupancy",
    "factor": "spills",
    "deal": "contended atomics",
    "deposit": "retried atomics",
    "descent": "hot slice",
    "ladder": "tail wave",
    "energy": "uneven blocks",
    "gated": "thin loads",
    "winner": "few in flight",
    "alive": "divergence",
    "scores": "extra bytes",  # repeated loads from memory: one of three that the counters do not tell apart
    "mesh": "extra bytes",
    "vignette": "extra bytes",
    "edges": "scratch buffer",
    "overlap": "extra flops",
    "widen": "integer overhead",
    "heat": "barriers",
    "voiced": "few blocks",
    "rotary": "small blocks",
    "moving": "local arrays",
    "quotes": "accidental fp64",
    "pages": "dependent loads",
    "wells": "divergence",
    "product": "no tensor cores",
    "smooth": "low occupancy",
}
# Only the work that is needed shows that FLOPs or bytes are too many, and that a kernel of any name is a product.
NEED_A_CASE = {
    "held_out": {"drift", "resample", "columns", "jacobi", "poly"},
    "held_out_2": {"scores", "mesh", "vignette", "edges", "overlap", "product"},
}
RULES = {"held_out": FIRST_SET, "held_out_2": SECOND_SET}
PAIRS = [(name, pair) for name, pairs in RULES.items() for pair in pairs]
Found = Mapping[str, tuple[Advice, ...]]


@dataclass(frozen=True)
class HeldOut:
    """A set of pairs and what is said of its kernels."""

    name: str

    @property
    def rules(self) -> dict[str, str]:
        return RULES[self.name]

    def table(self, name: str) -> list[dict[str, str]]:
        with (FAULTS / self.name / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    @cached_property
    def truth(self) -> dict[str, dict[str, str]]:
        return {row["pair"]: row for row in self.table("truth.csv")}

    @cached_property
    def stated(self) -> Found:
        """With the work of each kernel stated as a case."""
        stated = cases.read(FAULTS / self.name / "cases.csv")
        counted = observe.load(FAULTS / self.name / "record" / "kernels.csv")
        return {item.name: tuple(item.advice) for item in records.reconcile(stated, H200, counted).report.items}

    @cached_property
    def counted(self) -> Found:
        """By the counters alone."""
        kernels = report_of_kernels(observe.load(FAULTS / self.name / "record" / "kernels.csv"), H200).kernels
        return {kernel.name: kernel.advice for kernel in kernels}

    @cached_property
    def actual(self) -> dict[str, float]:
        """Seconds that each fix saved, by CUDA events."""
        times = {row["kernel"]: 1e-6 * float(row["median_us"]) for row in self.table("record/times.csv")}
        return {pair: times[row["faulty"]] - times[row["fixed"]] for pair, row in self.truth.items()}

    def first(self, found: Found, pair: str) -> tuple[str, str]:
        cause = found[self.truth[pair]["faulty"]][0]
        return cause.rule, cause.status


H200 = load("h200-sxm")
held_out = lru_cache(HeldOut)


@pytest.mark.parametrize("name", RULES)
def test_every_pair_is_in_the_record(name: str) -> None:
    pairs = held_out(name)
    kernels = {row[version] for row in pairs.truth.values() for version in ("faulty", "fixed")}
    assert set(pairs.rules) == set(pairs.truth)
    assert set(pairs.stated) == set(pairs.counted) == kernels


@pytest.mark.parametrize(("name", "pair"), PAIRS)
def test_the_planted_fault_is_first_and_shown(name: str, pair: str) -> None:
    pairs = held_out(name)
    assert pairs.first(pairs.stated, pair) == (pairs.rules[pair], "shown")


@pytest.mark.parametrize(("name", "pair"), [(name, pair) for name, pair in PAIRS if pair not in NEED_A_CASE[name]])
def test_counters_alone_show_it_where_no_count_is_in_excess(name: str, pair: str) -> None:
    pairs = held_out(name)
    assert pairs.first(pairs.counted, pair) == (pairs.rules[pair], "shown")


@pytest.mark.parametrize(("name", "pair"), [(name, pair) for name, pair in PAIRS if pair in NEED_A_CASE[name]])
def test_without_a_case_no_excess_is_claimed(name: str, pair: str) -> None:
    pairs = held_out(name)
    assert pairs.rules[pair] not in {item.rule for item in pairs.counted[pairs.truth[pair]["faulty"]]}


@pytest.mark.parametrize("name", RULES)
def test_the_fixed_kernel_does_not_have_the_fault(name: str) -> None:
    pairs = held_out(name)
    for pair, row in pairs.truth.items():
        assert pairs.rules[pair] not in {item.rule for item in pairs.stated[row["fixed"]] if item.shown}, pair


@pytest.mark.parametrize("name", RULES)
def test_every_predicted_gain_is_near_the_actual_one(name: str) -> None:
    pairs = held_out(name)
    for pair, row in pairs.truth.items():
        for found in (pairs.stated,) if pair in NEED_A_CASE[name] else (pairs.stated, pairs.counted):
            gain = found[row["faulty"]][0].gain
            assert gain is not None
            assert 1 / MAX_RATIO <= gain / pairs.actual[pair] <= MAX_RATIO, (pair, gain, pairs.actual[pair])
