"""Fitting: coefficients come back from timings made of them, errors on what was left out are honest, keys are right."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.families import FORMULAS, Coefficient, Family, Hardware, Key, nearby
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.measure import session as measuring
from ridgeline.prediction import fit as fitting
from ridgeline.prediction.coefficients import kernels
from ridgeline.prediction.fit import families as fitting_families
from ridgeline.prediction.fit import solve
from ridgeline.programs.ops import find
from strategies import law

H200 = rl.machine("h200-sxm")
STRANGER = replace(H200, fitted={})  # the same machine, of which nobody timed anything
LINE = {
    "slope": Coefficient(1.0, 1e-3, 1e3, "seconds per thing"),
    "start": Coefficient(1.0, 1e-3, 1e3, "seconds before the first"),
}
THINGS = np.geomspace(0.01, 100, 200)


def line(numbers: dict[str, float], things: Any = THINGS) -> Any:
    return numbers["slope"] * things + numbers["start"]


# -- the solver ------------------------------------------------------------------------------------------------------


@law(30)
@given(st.floats(0.2, 5.0), st.floats(0.2, 5.0), st.integers(0, 99))
def test_coefficients_come_back_through_noise_and_outliers(slope: float, start: float, seed: int) -> None:
    """Two per cent of noise, and every tenth timing three times too long."""
    random = np.random.default_rng(seed)
    times = line({"slope": slope, "start": start}) * np.exp(random.normal(0, 0.02, len(THINGS)))
    times[random.permutation(len(times))[: len(times) // 10]] *= 3
    found = solve(line, times, LINE)
    assert found["slope"] == pytest.approx(slope, rel=0.1)
    assert found["start"] == pytest.approx(start, rel=0.1)
    assert found == solve(line, times, LINE)  # the same every time


@law(30)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_coefficients_stay_within_their_bounds(slope: float, start: float) -> None:
    found = solve(line, line({"slope": slope, "start": start}), LINE)
    for name, row in LINE.items():
        assert row.low * (1 - 1e-9) <= found[name] <= row.high * (1 + 1e-9)


def test_a_bound_is_reached_where_the_timings_want_beyond_it() -> None:
    tight = {**LINE, "slope": Coefficient(1.0, 0.5, 2.0, "")}
    assert solve(line, line({"slope": 9.0, "start": 0.1}), tight)["slope"] == pytest.approx(2.0)
    assert solve(line, line({"slope": 0.01, "start": 5.0}), tight)["slope"] == pytest.approx(0.5)


def test_what_the_timings_do_not_speak_of_stays_where_it_starts() -> None:
    silent = {**LINE, "moon": Coefficient(7.0, 1.0, 100.0, "no formula asks for it")}
    times = line({"slope": 2.0, "start": 3.0})
    assert solve(line, times, silent)["moon"] == pytest.approx(7.0)
    assert solve(line, times, silent, {"moon": 20.0})["moon"] == pytest.approx(20.0)
    assert solve(line, times, silent, {"slope": 50.0, "start": 0.01})["slope"] == pytest.approx(2.0, rel=0.1)


# -- groups ------------------------------------------------------------------------------------------------------------


def every(kernel: Any) -> bool:
    return True


ROWS = [
    {"op": "gemm", "dtype": "bf16", "m": 64, "n": 64, "k": 64, "time_us": 3.0},
    {"op": "gemm", "dtype": "bf16", "m": 64, "n": 64, "k": 65, "time_us": 4.0},
    {"op": "gemm", "dtype": "fp16", "m": 2, "n": 64, "k": 64, "time_us": 5.0, "backend": "lib-1.0"},
    {"op": "gemm", "dtype": "fp8", "m": 64, "n": 64, "k": 64, "time_us": 3.5},
    {"op": "gemm", "dtype": "bf16", "weights": "int4_g128", "m": 64, "n": 64, "k": 64, "time_us": 6.0},
    {"op": "bmm", "dtype": "bf16", "batch": 2, "m": 64, "n": 64, "k": 64, "time_us": 7.0},
    {"op": "softmax", "dtype": "fp32", "rows": 8, "cols": 128, "time_us": 2.0},
    {"op": "softmax", "dtype": "fp32", "rows": 8, "cols": 4099, "time_us": 2.5},
    {"op": "add", "dtype": "bf16", "n": 1000, "time_us": 1.5},
    {"op": "sum", "dtype": "bf16", "n": 1000, "time_us": 1.6},
    {"op": "attention", "dtype": "bf16", "batch": 1, "heads": 8, "seq_q": 64, "head_dim": 64, "causal": 1, "time_us": 9.0},
    {"op": "attention", "dtype": "bf16", "batch": 1, "heads": 8, "seq_q": 1, "seq_kv": 64, "head_dim": 64, "causal": 1, "time_us": 8.0},
    {"op": "attention", "dtype": "bf16", "batch": 1, "heads": 8, "seq_q": 64, "head_dim": 64, "variant": "standard", "time_us": 30.0},
    {"op": "conv2d", "dtype": "fp32", "batch": 1, "c_in": 3, "c_out": 64, "h": 32, "w": 32, "layout": "nhwc", "time_us": 11.0},
    {"op": "transpose", "dtype": "bf16", "rows": 64, "cols": 64, "time_us": 2.2},
    {"op": "moe", "dtype": "bf16", "tokens": 4, "experts": 4, "topk": 2, "hidden": 64, "inter": 64, "time_us": 40.0},
]  # fmt: skip
KEYS = {
    "gemm.bf16": 3.0, "gemm-odd.bf16": 4.0, "gemm-few.fp16@lib-1.0": 5.0, "gemm-ragged.fp8": 3.5, "weight_only.bf16-int4": 6.0,
    "gemm.bmm.bf16": 7.0, "rows-short.softmax.fp32": 2.0, "rows-kept.softmax.fp32": 2.5, "stream.add.bf16": 1.5,
    "reduce.sum.bf16": 1.6, "attention-narrow.causal.bf16": 9.0, "decode-narrow.full.bf16": 8.0, "conv-few-odd.nhwc.fp32": 11.0,
    "transpose.bf16": 2.2, "moe.bf16": 40.0,
}  # fmt: skip


def times_of(groups: dict[Key, fitting.Group]) -> dict[str, list[float]]:
    return {str(key): sorted(np.round(group.times * 1e6, 9)) for key, group in groups.items()}


def fit_cases(cases: Any, machine: Machine, source: str, tell: Any = None) -> dict[str, Fitted]:
    """Fitted coefficients by the text of their key."""
    return {str(key): row for key, row in fitting.fit_cases(cases, machine, source, tell).items()}


def known(key: str) -> Fitted:
    return H200.fitted[Key.parse(key)]


def test_every_row_is_kept_under_the_key_that_predictions_look_for() -> None:
    """Standard attention is three kernels, so its row says nothing of one of them."""
    found = times_of(fitting.group(ROWS, H200, every))
    assert found == {key: [time] for key, time in KEYS.items()}
    same = replace(H200, fitted=dict.fromkeys(map(Key.parse, found), next(iter(H200.fitted.values()))))
    for row in ROWS:
        words = {name: value for name, value in row.items() if name not in ("op", "time_us", "backend")}
        work = find(str(row["op"]))(**words)
        if len(kernels(work)) == 1:
            step = rl.predict(work, same, backend=row.get("backend")).expected[0]
            assert KEYS[str(step.kernels[0].selected.key)] == row["time_us"]


def test_rows_of_texts_are_the_rows_of_numbers() -> None:
    """A csv file holds texts, and empty fields for what does not apply."""
    names = sorted({name for row in ROWS for name in row})
    texts = [{name: str(row.get(name, "")) for name in names} for row in ROWS]
    flags = [{**row, "causal": {"1": "True", "": ""}[row["causal"]]} for row in texts]
    wanted = fitting.group(ROWS, H200, every)
    for rows in (texts, flags):
        found = fitting.group(rows, H200, every)
        assert times_of(found) == times_of(wanted)
        for key, group in found.items():
            assert {name: values.tolist() for name, values in group.sizes.items()} == {
                name: values.tolist() for name, values in wanted[key].sizes.items()
            }


def test_ops_and_variants_may_be_kept_together() -> None:
    found = times_of(fitting.group(ROWS, H200, lambda kernel: kernel.op == "bmm", without_variants=("rows", "conv")))
    assert found["rows.fp32"] == [2.0, 2.5]
    assert found["conv.fp32"] == [11.0]
    assert found["gemm.bmm.bf16"] == [7.0]
    assert found["stream.bf16"] == [1.5]
    assert found["gemm-odd.bf16"] == [4.0]


def test_a_machine_without_cores_or_figures_groups_nothing() -> None:
    assert fitting.group(ROWS, replace(H200, units={}), every) == {}
    assert fitting.group(ROWS, replace(rl.machine("xeon-8480plus"), levels=()), every) == {}
    assert fitting.group(ROWS, rl.two_number(1e12, 1e12), every) == {}


# -- fits --------------------------------------------------------------------------------------------------------------

HARDWARE = Hardware(cores=132, peak=9.9e14, bandwidth=4.8e12, cache=5e7, special=4e12, vector=6e13)


def product_group(
    count: int, noise: float, seed: int = 0, shuffled: bool = False, least: float = 20.0
) -> tuple[fitting.Group, dict[str, float]]:
    """Products timed on a machine whose coefficients are known."""
    family, random = FORMULAS["gemm"], np.random.default_rng(seed)
    truth = {"compute": 0.6, "memory": 0.7, "launch": 5e-6, "tile": 20.0, "fill": 200.0, "blend": 2.0, "smallest": 64.0}
    sizes = {name: np.ceil(np.exp(random.uniform(np.log(least), 9.5, count))) for name in "mnk"}
    sizes |= {name: np.full(count, 2.0) for name in "awc"} | {"b": np.ones(count)}
    times = np.asarray(family.time(sizes, HARDWARE, truth)) * np.exp(random.normal(0, noise, count))
    if shuffled:
        times = random.permutation(times)
    return fitting.Group(family, HARDWARE, sizes, times), truth


def test_large_products_do_not_tell_the_smallest_tile() -> None:
    """They have tiles for all cores, and noise would choose: the fit takes the smallest that libraries have."""
    large = fitting.fit([product_group(200, 0.05, least=512.0)[0]], "a test")
    assert large is not None
    assert large.coefficients["smallest"] == 32.0
    assert large.error < 0.06


def test_a_formula_comes_back_from_its_own_times() -> None:
    group, truth = product_group(400, 0.01)
    found = fitting.fit([group], "a test")
    assert found is not None
    assert found.error < 0.015  # the noise: the median of |N(0, 1 %)| is 0.7 %
    assert found.coefficients["smallest"] == 64.0
    for name, near in (("compute", 0.05), ("memory", 0.05), ("launch", 0.1)):
        assert found.coefficients[name] == pytest.approx(truth[name], rel=near), name
    assert set(found.coefficients) == {name for name, row in group.family.coefficients.items() if not row.optional}
    for name, value in found.coefficients.items():
        row = group.family.coefficients[name]
        assert row.low * 0.9999 <= value <= row.high * 1.0001
    again = fitting.fit([product_group(400, 0.01)[0]], "a test")
    assert again == found


def test_the_error_is_that_of_timings_left_out() -> None:
    """Shuffled times say nothing: whatever is fitted, what was left out is told badly, and the interval says so."""
    honest, lost = (
        fitting.fit([product_group(200, 0.02)[0]], ""),
        fitting.fit([product_group(200, 0.02, shuffled=True)[0]], ""),
    )
    assert honest is not None
    assert lost is not None
    assert honest.error < 0.03
    assert lost.error > 0.5
    assert lost.high / lost.low > 10 * honest.high / honest.low


def test_every_timing_is_judged_once_by_numbers_that_never_saw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[set[float]] = []
    judged: list[set[float]] = []

    def learn(groups: Any, optional: Any, start: Any, fixed: Any) -> dict[str, float]:
        trained.append({float(name) for group in groups for name in group.sizes["id"]})
        return {}

    def tell(sizes: Any, hardware: Any, numbers: Any, off: Any) -> Any:
        judged.append({float(name) for name in sizes["id"]})
        return np.ones(len(sizes["id"]))

    monkeypatch.setattr(fitting_families, "_coefficients", learn)
    family = Family("spy", tell, {}, (), "all", ("id",))
    groups = [fitting.Group(family, HARDWARE, {"id": np.arange(first, first + 20.0)}, np.ones(20)) for first in (1, 21)]
    assert fitting.fit(groups, "") is not None
    everything = {float(name) for name in range(1, 41)}
    together, one, other = trained
    assert together == everything
    assert one | other == everything
    assert not one & other
    assert judged[0] | judged[1] == other
    assert judged[2] | judged[3] == one
    assert len(one) == len(other) == 20


def test_a_few_timings_are_not_fitted_by_heart() -> None:
    """Thirteen coefficients and twelve shuffled timings: a fit that judged itself would call this good."""
    lost = fitting.fit([product_group(12, 0.0, shuffled=True, seed=3)[0]], "")
    assert lost is not None
    assert lost.error > 0.3


def test_the_interval_holds_four_of_five() -> None:
    """Noise of 10 %: 80 % lie within 1.28 standard deviations; a little more is given, because quantiles are uncertain."""
    found = fitting.fit([product_group(600, 0.1)[0]], "")
    assert found is not None
    assert np.exp(-1.7 * 0.1) < found.low < np.exp(-1.28 * 0.1)
    assert np.exp(1.28 * 0.1) < found.high < np.exp(1.7 * 0.1)
    assert found.error == pytest.approx(0.0674, rel=0.2)  # the median of |N(0, 10 %)|
    assert found.p90 == pytest.approx(0.164, rel=0.2)


def test_too_few_timings_say_nothing() -> None:
    assert fitting.fit([product_group(fitting_families.MIN_TIMINGS["gpu"] - 1, 0.0)[0]], "") is None
    assert fitting.fit([product_group(fitting_families.MIN_TIMINGS["gpu"], 0.0)[0]], "") is not None


def test_ranges_tell_the_sizes_that_varied() -> None:
    group, _ = product_group(50, 0.0)
    found = fitting.fit([group], "here")
    assert found is not None
    sizes = group.sizes
    assert set(found.ranges) == {"m", "n", "k"}
    assert found.ranges["m"] == (fitting.rounded(sizes["m"].min()), fitting.rounded(sizes["m"].max()))
    assert (found.cases, found.source, found.borrowed) == (50, "here", False)


def replace_times(group: fitting.Group, times: Any) -> fitting.Group:
    return replace(group, times=times)


def test_optional_effects_are_absent_unless_asked_for() -> None:
    group, _ = product_group(60, 0.01)
    plain, asked = fitting.fit([group], ""), fitting.fit([group], "", ("prepare", "row"))
    assert plain is not None
    assert asked is not None
    assert "prepare" not in plain.coefficients
    assert {"prepare", "row"} <= set(asked.coefficients)


# -- a whole GPU -------------------------------------------------------------------------------------------------------


def timed(op: str, count: int, seed: int, slower: float = 1.0, **words: Any) -> list[dict[str, Any]]:
    """Rows whose times are what the shipped H200 tells, so that a fit has something true to find."""
    random = np.random.default_rng(seed)
    draws = {
        "n": 1e8,
        "rows": 1e4,
        "cols": 1e4,
        "m": 8e3,
        "k": 8e3,
        "heads": 32,
        "batch": 8,
        "seq_q": 4e3,
        "head_dim": 0,
    }
    rows = []
    for _ in range(count):
        row: dict[str, Any] = {"op": op, **words}
        for name, param in find(op).params.items():
            if param.required and name not in row:
                row[name] = 128 if name == "head_dim" else int(np.ceil(np.exp(random.uniform(1, np.log(draws[name])))))
        if op == "gemm":
            row |= {name: -(-row[name] // 64) * 64 for name in "mnk"}
        made = rl.predict(find(op)(**{key: value for key, value in row.items() if key != "op"}), H200)
        rows.append({**row, "time_us": float(made.time) * 1e6 * slower})
    return rows


@pytest.fixture(scope="module")
def small() -> list[dict[str, Any]]:
    return [
        *timed("gemm", 30, 1, dtype="bf16"),
        *timed("gemm", 30, 2, dtype="fp16", slower=1.5),
        *timed("add", 20, 3, dtype="bf16"),
        *timed("add", 20, 4, dtype="fp16"),
        *timed("relu", 5, 5, dtype="bf16"),
        *timed("attention", 20, 6, dtype="bf16", causal=1),
        *timed("attention", 20, 7, dtype="bf16", causal=0),
        *timed("attention", 20, 8, dtype="bf16", variant="standard"),
    ]


def test_formats_that_run_the_same_kernels_are_fitted_together(small: list[dict[str, Any]]) -> None:
    told: list[str] = []
    found = fit_cases(small, STRANGER, "a test", told.append)
    assert found["gemm.bf16"].cases == found["gemm.fp16"].cases == 30  # the libraries' best products differ
    assert found["gemm.fp16"] != found["gemm.bf16"]
    assert found["stream.add.fp16"] is found["stream.add.bf16"]
    assert found["stream.add.bf16"].cases == 40
    assert "stream.relu.bf16" not in found  # five timings are too few,
    assert found["stream.bf16"].cases == 45  # so it takes the numbers of its family
    assert found["attention.bf16"].cases == 40  # masked and not, but nothing of three kernels
    assert not any(key.startswith(("rows", "decode")) for key in found)
    assert any(line.startswith("gemm.bf16: 30 timings") for line in told)
    for row in found.values():
        assert row.source == "a test"
        assert row.low <= 1 <= row.high


def test_backends_keep_their_own_numbers() -> None:
    cases = timed("gemm", 14, 1, dtype="bf16")
    found = fit_cases(
        [*cases, *({**row, "backend": "lib-0.24.0", "time_us": 3 * row["time_us"]} for row in cases)], STRANGER, ""
    )
    assert set(found) == {"gemm.bf16", "gemm.bf16@lib-0.24.0"}
    case = group_of(cases)
    slow, fast = (
        np.median(case.formula_times(found[key].coefficients) / case.times)
        for key in ("gemm.bf16@lib-0.24.0", "gemm.bf16")
    )
    assert fast == pytest.approx(1.0, rel=0.1)
    assert slow == pytest.approx(3.0, rel=0.2)


def group_of(rows: list[dict[str, Any]]) -> fitting.Group:
    return fitting.group(rows, H200, every)[Key.parse("gemm.bf16")]


def test_nothing_to_fit_gives_nothing() -> None:
    assert fit_cases([], H200, "") == {}
    assert fit_cases(timed("gemm", 3, 1, dtype="bf16"), STRANGER, "") == {}


def test_what_is_known_stays_where_it_tells_the_timings_better() -> None:
    """The timings are what the shipped numbers say; then half as long again, which they do not."""
    alike = fit_cases(timed("gemm", 30, 1, dtype="bf16"), H200, "a test")
    assert alike["gemm.bf16"] == known("gemm.bf16")
    few = fit_cases(timed("gemm", 3, 1, dtype="bf16"), H200, "a test")
    assert few["gemm.bf16"] == known("gemm.bf16")
    other = fit_cases(timed("gemm", 30, 1, dtype="bf16", slower=1.5), H200, "a test")
    assert (other["gemm.bf16"].cases, other["gemm.bf16"].source) == (30, "a test")


def test_more_timings_bring_a_machine_up_to_date() -> None:
    """They took half as long again; the coefficients that are there stay where new ones predict no better."""
    cases = timed("gemm", 30, 1, dtype="bf16", slower=1.5)
    (key,), (row,) = zip(*fitting.update_cases(cases, H200, "a test").items(), strict=True)
    assert (str(key), row.cases, row.source) == ("gemm.bf16", 30, "a test")
    assert row.error < 0.1
    kept = fitting_families.renewed(known("gemm.bf16"), [fitting.group(cases, H200, every)[key]], "a test")
    assert kept.coefficients == known("gemm.bf16").coefficients
    assert row.error * row.p90 <= kept.error * kept.p90
    assert fitting.update_cases(cases[:3], H200, "a test") == {}  # too few to say anything
    updated = replace(H200, fitted={**H200.fitted, key: row})
    assert fitting.update_cases(cases, updated, "a test") == {}  # the same timings again
    assert list(fitting.update_cases(cases, updated, "a test", every_kernel=True)) == [key]


def test_a_kernel_without_coefficients_of_its_machine_is_fitted() -> None:
    cases, key = timed("gemm", 30, 1, dtype="bf16", slower=1.5), Key.parse("gemm.bf16")
    lent = replace(H200, fitted={key: replace(known("gemm.bf16"), borrowed=True)})
    assert fitting.update_cases(cases, lent, "a test")[key].coefficients != known("gemm.bf16").coefficients


def test_a_variant_that_was_not_timed_keeps_what_is_known_of_it() -> None:
    lent = replace(H200, fitted={key: replace(row, borrowed=True) for key, row in H200.fitted.items()})
    found = fit_cases(timed("gemm", 30, 1, dtype="bf16", slower=1.5), lent, "a test")
    assert found["gemm.bf16"].source == "a test"
    assert found["gemm-odd.bf16"] == replace(known("gemm-odd.bf16"), borrowed=False)
    assert not any(key.startswith("conv") for key in found)
    own = {Key.parse(key): row for key, row in found.items()}
    step = rl.predict(rl.ops.gemm(m=512, n=511, k=511, dtype="bf16"), replace(lent, fitted={**lent.fitted, **own}))
    assert "calibrated (gemm-odd.bf16," in str(step.expected[0].confidence)


def test_timings_that_are_kept_correct_the_formula_and_are_judged_on_halves_left_out() -> None:
    """A product that always takes 1.4 times as long in one corner of the sizes: a formula cannot say so, its timings can."""
    group, _ = product_group(400, 0.0)
    sizes, times = group.sizes, group.times
    odd = replace_times(group, np.where(sizes["m"] < np.median(sizes["m"]), 1.4, 1.0) * times)
    alone, kept = fitting.fit([odd], ""), fitting.fit([odd], "", keep_timings=True)
    assert alone is not None
    assert kept is not None
    assert kept.coefficients == alone.coefficients
    assert not alone.nearby
    assert len(nearby.read(str(kept.nearby)).weights) == 400
    assert kept.error < 0.8 * alone.error


class Process:
    """Stands in for the process that times kernels: writes what it was told to, and says how far it is."""

    rows: ClassVar[list[dict[str, Any]]] = []
    words: ClassVar[list[str]] = []

    def __init__(self, words: list[str], stderr: int, text: bool, env: dict[str, str]) -> None:
        type(self).words = words
        self.stderr = iter(["warming up\n", "1 of 2 cases\n", "2 of 2 cases\n", "no GPU to be seen\n"])
        folder = Path(words[words.index("--out") + 1])
        if self.rows:
            names = sorted({name for row in self.rows for name in row})
            with (folder / "calibration.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, names)
                writer.writeheader()
                writer.writerows(self.rows)
            (folder / "conditions.json").write_text('{"device": "H200", "date": "2026-11-15T06:00"}')

    def wait(self) -> int:
        return 0


def test_measuring_fits_what_a_process_times(small: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of `ridgeline measure --calibrate`; a case that failed has no time and is left out."""
    failed = {"op": "gemm", "dtype": "bf16", "m": 64, "n": 64, "k": 64, "error": "out of memory"}
    monkeypatch.setattr(measuring.subprocess, "Popen", Process)
    slower = [{**row, "time_us": 1.5 * row["time_us"]} for row in small]  # than any numbers say that are lent
    monkeypatch.setattr(Process, "rows", [*slower, failed])
    steps: list[tuple[str, int, int, str]] = []
    fitted = measuring.fitted_families(H200, True, lambda *step: steps.append(step))
    found = {str(key): row for key, row in fitted.items()}
    assert "--quick" in Process.words
    assert found["gemm.bf16"].cases == 30
    assert "H200" in found["gemm.bf16"].source
    assert "2026-11-15" in found["gemm.bf16"].source
    assert not any(row.borrowed for row in found.values())
    assert steps[:2] == [("kernels", 1, 2, ""), ("kernels", 2, 2, "")]
    assert steps[2][0] == "fit"


def test_a_process_that_times_nothing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring.subprocess, "Popen", Process)
    monkeypatch.setattr(Process, "rows", [])
    with pytest.raises(rl.RidgelineError, match="no kernels were timed: no GPU to be seen"):
        measuring.fitted_families(H200, False, lambda *step: None)


def test_without_scipy_fitting_says_what_to_install_before_anything_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setattr(measuring.detect, "here", lambda *words: pytest.fail("measured before it was refused"))
    for fails in (
        lambda: solve(line, THINGS, LINE),
        lambda: fitting.fit([product_group(20, 0.0)[0]], ""),
        lambda: measuring.measure("cuda", True, lambda *step: None, families=True),
    ):
        with pytest.raises(rl.RidgelineError, match=r"ridgeline\[fit\]"):
            fails()


def test_linear_models_are_found_again() -> None:
    """Columns that differ by twelve orders of magnitude; relative errors count a small target as much as a large one."""
    ones, rates = np.ones(5), np.array([1.0, 2.0, 4.0, 8.0, 16.0]) * 1e12
    factors, error = fitting.linear([ones, rates], 3.0 + 2e-12 * rates)
    assert factors == pytest.approx([3.0, 2e-12])
    assert error == pytest.approx(0, abs=1e-9)
    times = np.array([1.0, 1.1, 1000.0])
    (mean,), error = fitting.linear([np.ones(3)], times, relative=True)
    weights = 1 / times**2
    assert mean == pytest.approx(float((weights * times).sum() / weights.sum()))
    assert error == pytest.approx(float(np.sqrt(np.mean((mean / times - 1) ** 2))))


def test_collectives_have_no_kernel_families_to_fit() -> None:
    with pytest.raises(rl.RidgelineError, match="collectives have none"):
        measuring.measure("collective", True, lambda *step: None, families=True)
