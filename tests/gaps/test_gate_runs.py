"""The gate over several runs: what it finds and how often it is wrong, on simulated runs whose truth is known."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ridgeline.app.cli import main
from ridgeline.core.errors import InputError
from ridgeline.core.statistics import student_t_quantile, student_t_tail
from ridgeline.gaps.gate import SAME, SLOWER, UNCLEAR, Timed, Verdict, compare, load_runs

NAMES = ("product", "softmax", "norm", "copy", "sort", "sum")
Run = dict[str, Timed]


class Bench:
    """Runs of one program: run-to-run variation, noise within a run, and neighbours that slow some runs for a while."""

    def __init__(self, seed: int, between: float = 0.012, within: float = 0.01, neighbours: float = 0.2) -> None:
        self.draw = np.random.default_rng(seed)
        self.between, self.within, self.neighbours = between, within, neighbours

    def run(self, slow: str = "", factor: float = 1.0, samples: int = 20) -> Run:
        timings = {}
        for name in NAMES:
            level = 1e-4 * math.exp(self.between * self.draw.standard_normal()) * (factor if name == slow else 1.0)
            times = level * np.exp(self.within * np.abs(self.draw.standard_normal(samples)))
            if (
                self.draw.random() < self.neighbours
            ):  # from a random sample on, each takes longer by its share of a core
                start = self.draw.integers(0, samples)
                times[start:] *= self.draw.uniform(1.1, 2.0, samples - start)
            timings[name] = Timed(tuple(times))
        return timings

    def runs(self, count: int, slow: str = "", factor: float = 1.0) -> list[Run]:
        return [self.run(slow, factor) for _ in range(count)]


def slower(verdict: Verdict) -> list[str]:
    return [item.name for item in verdict.items if item.verdict == SLOWER]


@pytest.mark.parametrize(("baseline", "current"), [(1, 1), (3, 1), (5, 1), (5, 3)])
def test_identical_runs_rarely_fail(baseline: int, current: int) -> None:
    """Six names, 20 % of the timings disturbed: at most 2 red gates in 100, whatever the number of runs."""
    bench = Bench(seed=baseline + 10 * current)
    alarms = sum(bool(slower(compare(bench.runs(baseline), bench.runs(current)))) for _ in range(150))
    assert alarms <= 3


@pytest.mark.parametrize(("baseline", "current", "neighbours"), [(1, 1, 0.0), (5, 1, 0.05), (5, 3, 0.2)])
def test_a_slowdown_of_ten_percent_is_caught(baseline: int, current: int, neighbours: float) -> None:
    """Three current runs find it on a noisy machine; a single one needs a quiet machine, as does a single baseline."""
    bench = Bench(seed=baseline + 10 * current, between=0.012 if baseline > 1 else 0.004, neighbours=neighbours)
    caught = 0
    for turn in range(100):
        name = NAMES[turn % len(NAMES)]
        caught += name in slower(compare(bench.runs(baseline), bench.runs(current, name, 1.1)))
    assert caught >= 90


def test_wide_run_to_run_variation_is_measured_and_not_taken_for_a_regression() -> None:
    """Runs that differ by 6 % among themselves: a tenth more is no evidence, and the answer says how many runs are."""
    bench = Bench(seed=3, between=0.06, neighbours=0.0)
    verdicts = [compare(bench.runs(5), bench.runs(1, "sort", 1.1)) for _ in range(60)]
    assert sum("sort" in slower(verdict) for verdict in verdicts) <= 30
    assert sum(any(name != "sort" for name in slower(verdict)) for verdict in verdicts) <= 3
    unclear = [
        item for verdict in verdicts for item in verdict.items if item.verdict == UNCLEAR and item.name == "sort"
    ]
    assert any("is within the run-to-run variation" in item.why and "runs of each" in item.why for item in unclear)
    spread = [item.variation for verdict in verdicts for item in verdict.items]
    assert 0.03 < float(np.median(spread)) < 0.08


def test_more_runs_detect_smaller_changes() -> None:
    bench = Bench(seed=4, neighbours=0.0)
    detectable = []
    for baseline, current in ((1, 1), (3, 1), (5, 3), (12, 12)):
        items = compare(bench.runs(baseline), bench.runs(current), min_difference=0.01).items
        detectable.append(float(np.median([item.detectable for item in items if item.detectable])))
    assert detectable[2] > detectable[3]
    assert detectable[1] > detectable[2]


def test_many_names_do_not_add_up_to_false_alarms() -> None:
    """Holm's method: 200 names of identical code in one gate, and the gate stays green."""
    draw = np.random.default_rng(5)

    def run() -> Run:
        levels = 1e-4 * np.exp(0.015 * draw.standard_normal(200))
        return {f"k{number}": Timed(tuple(level * np.exp(0.005 * np.abs(draw.standard_normal(8))))) for number, level in enumerate(levels)}  # fmt: skip

    alarms = sum(bool(slower(compare([run() for _ in range(4)], [run() for _ in range(2)]))) for _ in range(20))
    assert alarms <= 1


def test_a_noisy_run_is_left_out_where_quiet_ones_exist() -> None:
    quiet, noisy = Timed((1e-4, 1.01e-4) * 5), Timed((2e-4, 4e-4) * 5)
    verdict = compare([{"k": quiet}, {"k": noisy}, {"k": quiet}], [{"k": quiet}])
    assert verdict.items[0].ratio == pytest.approx(1.0)
    assert verdict.items[0].runs == (2, 1)
    assert "1 noisy run left out: k" in verdict.notes


def test_a_noisy_current_run_is_no_evidence_but_a_tenfold_slowdown_is() -> None:
    baseline = [{"k": Timed((1e-4, 1.01e-4) * 5)}] * 3
    (item,) = compare(baseline, [{"k": Timed((1.3e-4, 1.6e-4) * 5)}]).items
    assert (item.verdict, "the samples scatter by 23 %" in item.why) == (UNCLEAR, True), item.why
    (item,) = compare(baseline, [{"k": Timed((10e-4, 13e-4) * 5)}]).items
    assert item.verdict == SLOWER


def test_a_run_whose_samples_were_all_preempted_cannot_fail_a_build() -> None:
    (item,) = compare([{"k": Timed((1e-4,) * 9)}] * 3, [{"k": Timed((9e-4,) * 9, preempted=True)}]).items
    assert (item.verdict, "every sample was preempted" in item.why) == (UNCLEAR, True)


def test_single_samples_per_run_are_enough_where_there_are_runs() -> None:
    old = [{"k": Timed((time,))} for time in (1e-4, 1.01e-4, 0.99e-4, 1e-4)]
    assert compare(old, [{"k": Timed((1.2e-4,))}] * 2).items[0].verdict == SLOWER
    assert compare(old, [{"k": Timed((1.01e-4,))}] * 2).items[0].verdict == SAME


def test_the_statistic_by_hand() -> None:
    """Two runs of each side, e^0.1 slower, deviations of 1 %: the formulas of the module in numbers."""
    logs = (-0.01, 0.01), (0.09, 0.11)
    old, new = ([{"k": Timed((math.exp(value),))} for value in side] for side in logs)
    (item,) = compare(old, new).items
    s = math.sqrt((4 * 0.015**2 + 4 * 0.01**2) / (4 + 2))
    assert item.variation == pytest.approx(s)
    t = 0.1 / (s * math.sqrt(1 / 2 + 1 / 2))
    assert item.p_value == pytest.approx(student_t_tail(t, 6))
    assert item.low == pytest.approx(math.exp(0.1 - student_t_quantile(0.025, 6) * s))


def test_timings_that_differ_beyond_measure_have_a_finite_answer() -> None:
    old, new = ([{"k": Timed((low,))}, {"k": Timed((high,))}] for low, high in ((1e-12, 1e9), (1e-13, 1e10)))
    (item,) = compare(old, new).items
    assert all(map(math.isfinite, (item.ratio, item.low, item.high, item.detectable or 0.0)))
    assert item.verdict in (SAME, UNCLEAR)


# -- files ----------------------------------------------------------------------------------------------------------


def written(folder: Path, runs: Sequence[Run], suffix: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = []
    for number, run in enumerate(runs):
        path = folder / f"run{number}{suffix}"
        if suffix == ".csv":
            rows = [f"{name},{float(time) * 1e6!r}" for name, timed in run.items() for time in timed.samples]
            path.write_text("\n".join(["name,time_us", *rows]) + "\n")
        else:
            path.write_text(json.dumps([{"name": name, "samples": timed.samples} for name, timed in run.items()]))
        paths.append(path)
    return paths


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_the_command_takes_runs_and_folders_of_any_format(tmp_path: Path, suffix: str) -> None:
    bench = Bench(seed=6, neighbours=0.0)
    old = written(tmp_path / "old", bench.runs(5), suffix)
    same = written(tmp_path / "same", bench.runs(3), suffix)
    slow = written(tmp_path / "slow", bench.runs(3, "copy", 1.15), suffix)
    runner = CliRunner()
    folder = ["gate", "--baseline", str(tmp_path / "old")]
    assert runner.invoke(main, [*folder, *map(str, same)]).exit_code == 0
    each = ["gate", *(word for path in old for word in ("--baseline", str(path))), str(tmp_path / "slow")]
    for words in (each, [*folder, *map(str, slow)]):
        ended = runner.invoke(main, words)
        assert (ended.exit_code, ended.output.splitlines()[0].startswith("1 regression: copy +1")) == (1, True)
    single = runner.invoke(main, ["gate", str(old[0]), str(same[0])])
    assert single.exit_code == 0
    assert "5 baseline and 3 current runs measure it" in single.output


def test_what_is_no_pair_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no files of timings"):
        load_runs([tmp_path / "empty"])
    path = str(written(tmp_path, Bench(seed=7).runs(1), ".csv")[0])
    for words in (["gate", path], ["gate", path, path, path]):
        ended = CliRunner().invoke(main, words)
        assert (ended.exit_code, "name a baseline and a current file" in ended.output) == (2, True)
