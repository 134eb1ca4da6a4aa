"""Sampling by value within a budget, with a clock that only moves when a probe says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ridgeline.measure.protocol import Probe, Timing
from ridgeline.measure.schedule import Effort, Group, by_value

EFFORT = Effort(rounds=5, min_seconds=0.01, warm_seconds=0.0, budget=100.0)


class Bench:
    """Probes of so many seconds per call, and the story of which group was begun and which probe called."""

    def __init__(self) -> None:
        self.time = 0.0
        self.story: list[str] = []

    def now(self) -> float:
        return self.time

    def group(self, name: str, seconds: float = 1.0, required: bool = False, busy: Sequence[float] = ()) -> Group:
        shares = iter(busy)

        def call(loops: int) -> Timing:
            share = next(shares, 1.0)
            self.time += loops * seconds
            self.story.append(name)
            return Timing(loops * seconds, share)

        return Group(name, lambda: [Probe(f"{name} probe", "memory", call, settings={"threads": 2})], required)

    def order(self) -> list[str]:
        return list(dict.fromkeys(self.story))


def test_required_groups_come_first_and_in_their_order() -> None:
    bench = Bench()
    groups = [
        bench.group("b"),
        bench.group("memory", required=True),
        bench.group("a"),
        bench.group("peaks", required=True),
    ]
    run = by_value(groups, EFFORT, bench)
    assert bench.order() == ["memory", "peaks", "b", "a"]
    assert run.missing == []
    assert not run.partial
    assert {len(row.samples) for row in run.series} == {EFFORT.rounds}


@pytest.mark.parametrize("budget", [0.0, 3.0, 12.0])
def test_however_small_the_budget_all_that_is_required_is_sampled_and_the_rest_is_named(budget: float) -> None:
    bench = Bench()
    groups = [bench.group(name, required=name in "abc") for name in "abcxyz"]
    run = by_value(groups, Effort(5, 0.01, 0.0, budget), bench)
    sampled = [row.probe.name for row in run.series]
    assert sampled[:3] == ["a probe", "b probe", "c probe"]
    assert run.missing == [name for name in "xyz" if f"{name} probe" not in sampled]
    assert run.missing
    assert run.partial
    # three required probes: a warm-up, a calibration and a sample each, whatever the budget
    assert bench.time <= max(budget, 9.0) + 4


def test_a_budget_counts_from_the_start_of_the_measurement() -> None:
    bench = Bench()
    bench.time = 50.0
    run = by_value([bench.group("a", required=True), bench.group("b")], Effort(5, 0.01, 0.0, 20.0), bench, start=0.0)
    assert run.missing == ["b"]
    assert run.why == "20 s budget"
    assert [len(row.samples) for row in run.series] == [1]


def test_noisy_required_probes_are_sampled_again_before_the_optional_ones() -> None:
    bench = Bench()
    loud = bench.group("loud", 0.1, True, [1.0, 1.0] + [0.5] * 9)
    run = by_value([loud, bench.group("calm", 0.1, True), bench.group("optional", 0.1)], EFFORT, bench)
    assert [len(row.samples) >= EFFORT.rounds for row in run.series] == [True, True, True]
    assert len(run.series[0].preempted) == 9
    first_optional = bench.story.index("optional")
    assert bench.story[:first_optional].count("loud") > bench.story[:first_optional].count("calm")


def test_ctrl_c_keeps_what_was_sampled_and_names_the_rest() -> None:
    bench = Bench()

    def stop() -> list[Probe]:
        raise KeyboardInterrupt

    run = by_value([bench.group("a", required=True), Group("b", stop, True), bench.group("c")], EFFORT, bench)
    assert run.stopped
    assert [row.probe.name for row in run.series] == ["a probe"]
    assert run.missing == ["b", "c"]


def test_a_group_that_is_sampled_apart_is_not_interleaved_later() -> None:
    bench, rested = Bench(), list[str]()
    product = bench.group("library GEMM", 1.0)
    product = Group(product.name, product.probes, after=lambda: rested.append("done"))
    by_value([bench.group("a", required=True), product, bench.group("b")], EFFORT, bench)
    assert rested == ["done"]
    last = len(bench.story) - 1 - bench.story[::-1].index("library GEMM")
    assert bench.story.index("b") > last


def test_progress_only_grows() -> None:
    bench, seen = Bench(), list[int]()
    by_value(
        [bench.group("a", required=True), bench.group("b")], EFFORT, bench, lambda done, total, label: seen.append(done)
    )
    assert seen == sorted(seen)
    assert seen[-1] == 1000
