"""Judging expected times: errors, baselines and intervals of cases made by hand; what is missing, what is drawn."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import ridgeline as rl
from ridgeline.app.cli import main
from ridgeline.core.machine import Machine
from ridgeline.core.statistics import Errors
from ridgeline.machines.load import load
from ridgeline.prediction import score as evaluate
from ridgeline.prediction.score import Evaluation, document
from ridgeline.prediction.table import Defaults
from ridgeline.programs.cases import read
from ridgeline.render.charts.measured import score_chart
from ridgeline.render.draw import files
from ridgeline.render.tables.studies import score_table

TWO = rl.two_number(peak=1e12, bandwidth=1e11, launch=1e-6)  # 1000 flop/ns, 100 B/ns, a launch of 1 us


def judge(rows: list[dict[str, Any]], machine: Machine | None = TWO, **options: Any) -> Evaluation:
    return evaluate.evaluate(rows, Defaults(machine, load, {}, options))


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def add(n: int, time_us: Any, **more: Any) -> dict[str, Any]:
    return {"op": "add", "dtype": "fp32", "n": n, "time_us": time_us, **more}


def floor_us(n: int) -> float:
    return 12 * n / 1e11 * 1e6  # two operands read, one written, four bytes each


# -- scores ------------------------------------------------------------------------------------------------------------


def test_scores_by_hand() -> None:
    """Predicted over measured 1.1, 0.8, 1.5, 1.0: errors 0.1, 0.2, 0.5, 0."""
    score = Errors.of(np.array([11.0, 8.0, 15.0, 10.0]), np.full(4, 10.0))
    assert score.median == pytest.approx((0.1 + 0.2) / 2)
    assert score.mean == pytest.approx((0.1 + 0.2 + 0.5 + 0.0) / 4)
    assert score.p90 == pytest.approx(0.2 + 0.7 * (0.5 - 0.2))  # 0.9 of the way through three gaps: 2.7
    assert score.signed == pytest.approx((0.0 + 0.1) / 2)


def test_the_error_is_over_the_measured_time() -> None:
    """Twice the measured time is 100 % off, half of it 50 %: not the same way round."""
    assert Errors.of(np.array([2.0]), np.array([1.0])).median == pytest.approx(1.0)
    assert Errors.of(np.array([1.0]), np.array([2.0])).median == pytest.approx(0.5)
    assert Errors.of(np.array([1.0]), np.array([2.0])).signed == pytest.approx(-0.5)


# -- baselines ---------------------------------------------------------------------------------------------------------


def test_baselines_by_hand() -> None:
    """Two streams on two numbers: 1000 elements (12 kB, 0.12 us, less than a launch) and a million (120 us)."""
    found = judge([add(1000, 2.0), add(1_000_000, 200.0)])
    (family,) = found.families
    assert family.family == "stream"
    assert family.measured.tolist() == pytest.approx([2e-6, 200e-6])
    assert family.predicted["roofline"].tolist() == pytest.approx([0.12e-6, 120e-6])
    assert family.predicted["flat"].tolist() == pytest.approx([1e-6, 120e-6 / 0.78])
    own = [float(rl.predict(rl.ops.add(n=n, dtype="fp32"), TWO).time) for n in (1000, 1_000_000)]
    assert family.predicted["ridgeline"].tolist() == pytest.approx(own)
    assert family.errors("roofline").median == pytest.approx(((1 - 0.06) + (1 - 0.6)) / 2)
    assert found.failed == 0


def test_products_are_bound_by_the_peak_in_the_baseline() -> None:
    found = judge([{"op": "gemm", "dtype": "bf16", "m": 1024, "n": 1024, "k": 1024, "time_us": 5000.0}])
    assert found.families[0].predicted["roofline"][0] == pytest.approx(2 * 1024**3 / 1e12)


def test_three_numbers_are_found_again_and_judged_on_the_other_half() -> None:
    """Times made as max(flops / (0.5 peak), bytes / (0.7 bandwidth)) + 4 us, which is what the baseline fits."""
    sizes = np.unique(np.geomspace(16, 4096, 60).astype(int))
    rows = []
    for size in sizes.tolist():
        compute, memory = 2 * size**2 * 512 / 0.5e12, 2 * (2 * size * 512 + size**2) / 0.7e11
        rows.append(
            {"op": "gemm", "dtype": "bf16", "m": size, "n": size, "k": 512, "time_us": max(compute, memory) * 1e6 + 4}
        )
    (family,) = judge(rows).families
    assert family.errors("fitted").p90 < 0.02
    random = np.random.default_rng(0)
    mixed = [
        {**row, "time_us": time}
        for row, time in zip(rows, random.permutation([row["time_us"] for row in rows]), strict=True)
    ]
    assert judge(mixed).families[0].errors("fitted").median > 0.3
    honest = judge([{**rows[0], "time_us": 1.0}, {**rows[0], "time_us": 100.0}]).families[0]
    assert honest.predicted["fitted"][0] > 10e-6  # the fast one is told from the slow one, and the other way round
    assert honest.predicted["fitted"][1] < 20e-6


def test_without_scipy_the_fitted_baseline_is_left_out_and_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [add(1000, 2.0), add(1_000_000, 200.0)]
    with_it = judge(rows)
    monkeypatch.setitem(sys.modules, "scipy", None)
    without = judge(rows)
    assert without.methods == evaluate.METHODS[:3]
    for one, other in zip(document(without)["families"], document(with_it)["families"], strict=True):
        assert one == {name: value for name, value in other.items() if name != "fitted"}
    shown = score_table(without)
    assert not any(column.key.startswith("fitted") for column in shown.columns)
    assert sum("ridgeline[fit]" in note for note in shown.notes) == 1
    assert not any("ridgeline[fit]" in note for note in score_table(with_it).notes)
    drawn = score_chart(without)
    assert len(drawn.points) == 2


def test_the_interval_is_counted() -> None:
    low, high = (
        float(getattr(rl.predict(rl.ops.add(n=10**6, dtype="fp32"), TWO), end)) * 1e6 for end in ("low", "high")
    )
    rows = [add(10**6, low * 1.01), add(10**6, high * 0.99), add(10**6, low * 0.99), add(10**6, high * 1.01)]
    (family,) = judge(rows).families
    assert family.inside.tolist() == [1, 1, 0, 0]
    assert document(judge(rows))["families"][0]["inside_interval"] == 0.5


def test_families_are_told_apart_and_pooled() -> None:
    rows = [
        add(1000, 2.0),
        {"op": "gemm", "dtype": "bf16", "m": 64, "n": 64, "k": 64, "time_us": 3.0},
        {"op": "linear", "dtype": "fp32", "batch": 64, "in_features": 64, "out_features": 64, "time_us": 3.0},
        {"op": "attention", "dtype": "bf16", "batch": 1, "heads": 8, "seq_q": "64", "head_dim": 64, "time_us": 3.0},
        *(
            {"op": "attention", "dtype": "bf16", "batch": 1, "heads": 8, "seq_q": one, "seq_kv": 64, "head_dim": 64, "time_us": 3.0}
            for one in (1, "1", "1.0", 1.0)
        ),
    ]  # fmt: skip
    found = judge(rows)
    counts = {one.family: len(one.measured) for one in found.families}
    assert counts == {"attention": 1, "attention decode": 4, "gemm bf16": 1, "gemm fp32": 1, "stream": 1}
    assert len(found.pooled.measured) == 8
    assert found.pooled.errors("roofline").mean == pytest.approx(
        sum(one.errors("roofline").mean * len(one.measured) for one in found.families) / 8
    )
    told = document(found)["families"]
    assert [one["family"] for one in told] == [*sorted(counts), "all"]
    assert set(told[0]) == {"family", "cases", "inside_interval", *evaluate.METHODS}


# -- what is missing ---------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_judged_are_counted_and_the_others_judged() -> None:
    rows = [
        add(1000, 2.0),
        add(1000, ""),
        add(1000, None),
        add(1000, "soon"),
        add(1000, -1.0),
        add(1000, 0),
        add(1000, float("nan")),
        add(1000, float("inf")),
        add(0, 2.0),
        {"op": "no such op", "time_us": 2.0},
        {"op": "gemm", "dtype": "bf16", "m": 8, "n": 8, "time_us": 2.0},
        {"op": "add", "dtype": "fp99", "n": 8, "time_us": 2.0},
    ]
    found = judge(rows)
    assert len(found.pooled.measured) == 1
    assert found.failed == 11
    assert "11 cases" in score_table(found).notes[-1]
    assert [text.partition(":")[0] for text in found.row_errors] == [
        *(f"row {index}, column time_us" for index in range(2, 9)),
        "row 9, column n",
        "row 10, column op",
        "row 11, column k",
        "row 12, column dtype",
    ]
    assert found.row_errors[0].endswith("is empty")
    assert found.row_errors[3].endswith("got '-1.0'")
    assert document(found)["errors"] == list(found.row_errors)
    assert judge([add(1000, 2.0), {"op": "add", "n": 8}]).row_errors == ("row 2, column time_us: is empty",)
    assert score_table(judge(rows[:1])).notes == score_table(found).notes[:-1]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "time_us"),
        ([{"op": "add", "n": 8}], "no case has a measured time"),
        ([add(8, "soon")], "row 1, column time_us: must be a positive number of microseconds, got 'soon'"),
        ([{"op": "bad", "time_us": 1.0}], "unknown op"),
    ],
)
def test_nothing_to_judge_is_one_message(rows: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(rl.RidgelineError, match=told):
        judge(rows)


def test_a_case_without_a_machine_says_so() -> None:
    with pytest.raises(rl.RidgelineError, match="no machine"):
        judge([add(8, 1.0)], machine=None)


# -- machines ----------------------------------------------------------------------------------------------------------


def test_the_machine_of_a_row_goes_before_the_one_given() -> None:
    """Both for the expected time and for the baselines: 12 MB at the T4's 320 GB/s and at two numbers' 100 GB/s."""
    rows = [add(10**6, 100.0, machine="t4"), add(10**6, 200.0)]
    found = judge(rows)
    assert found.machine == "t4, two-number"
    t4 = rl.machine("t4").bandwidth(ceilings="stated").value
    assert found.families[0].predicted["roofline"].tolist() == pytest.approx([12e6 / t4, 120e-6])
    alone = judge(rows[:1])
    for method in ("ridgeline", "roofline", "flat"):
        assert found.families[0].predicted[method][0] == pytest.approx(alone.families[0].predicted[method][0]), method


def test_a_machine_file_in_a_column(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        """name = "mine-of-all-names"
title = "a card"
vendor = "nobody"
kind = "gpu"
source = "doc"
[sources]
doc = "a document"
[peak.vector]
fp32 = { stated = "1 TFLOP/s" }
[[level]]
name = "hbm"
capacity = "1 GiB"
bandwidth = "100 GB/s"
""",
        encoding="utf-8",
    )
    found = judge([add(10**6, 200.0, machine=str(path))], machine=None)
    assert found.families[0].predicted["roofline"][0] == pytest.approx(120e-6)


def test_a_machine_with_measured_figures_alone_is_judged_against_those() -> None:
    bandwidth = replace(TWO.main.bandwidth, stated=None, measured=2e11)
    peak = replace(TWO.peaks["peak"], stated=None, measured=2e12)
    one = replace(TWO, peaks={"peak": peak}, levels=(replace(TWO.main, bandwidth=bandwidth),))
    found = judge([add(10**6, 200.0)], machine=one)
    assert found.families[0].predicted["roofline"][0] == pytest.approx(60e-6)


# -- shown -------------------------------------------------------------------------------------------------------------

CASES = """op,dtype,n,m,k,time_us
add,fp32,1000,,,2
add,fp32,1000000,,,200
gemm,bf16,64,64,64,3
gemm,bf16,4096,4096,4096,9000
"""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.csv"
    path.write_text(CASES, encoding="utf-8")
    return path


TWO_NUMBERS = ("--peak", "1 TFLOP/s", "--bandwidth", "100 GB/s", "--launch", "1 us")


def test_the_table_and_the_json_tell_the_same(cases: Path) -> None:
    result = run("eval", str(cases), *TWO_NUMBERS, "--json")
    assert result.exit_code == 0
    told = {one["family"]: one for one in json.loads(result.stdout)["families"]}
    assert [told[name]["cases"] for name in ("stream", "gemm bf16", "all")] == [2, 2, 4]
    assert told["stream"]["roofline"]["median"] == pytest.approx((0.94 + 0.4) / 2)
    shown = run("eval", str(cases), *TWO_NUMBERS)
    assert shown.exit_code == 0
    assert "67" in shown.stdout  # per cent
    found = judge(
        [dict(zip(CASES.splitlines()[0].split(","), line.split(","), strict=True)) for line in CASES.splitlines()[1:]]
    )
    rows = {row["family"]: row for row in score_table(found).rows}
    assert rows["stream"]["roofline_median"] == pytest.approx(told["stream"]["roofline"]["median"])


def test_the_chart_has_every_case_and_the_diagonal(cases: Path, tmp_path: Path) -> None:
    found = judge([add(1000, 2.0), add(10**6, 200.0)])
    drawn = score_chart(found)
    assert [(point.x, point.y) for point in drawn.points] == [
        (pytest.approx(measured), pytest.approx(predicted))
        for measured, predicted in zip(found.pooled.measured, found.pooled.predicted["ridgeline"], strict=True)
    ]
    every = [value for point in drawn.points for value in (point.x, point.y)]
    assert drawn.x.range == drawn.y.range
    assert drawn.x.range[0] < min(every)
    assert drawn.x.range[1] > max(every)
    diagonal = drawn.lines[0].points
    assert all(x == y for x, y in diagonal)
    for suffix in ("svg", "html"):
        out = tmp_path / f"chart.{suffix}"
        files.save(drawn, out)
        assert out.stat().st_size > 1000
    result = run("eval", str(cases), *TWO_NUMBERS, "--out", str(tmp_path / "eval.svg"))
    assert result.exit_code == 0
    assert ">gemm" in (tmp_path / "eval.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", ["csv", "md", "json"])
def test_the_table_goes_to_files(cases: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"eval.{suffix}"
    assert run("eval", str(cases), *TWO_NUMBERS, "--out", str(out)).exit_code == 0
    assert "gemm bf16" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("missing.csv", "--on", "t4"), "cannot read 'missing.csv'"),
        (("CASES", "--on", "no-such-machine"), "unknown machine"),
        (("CASES",), "no machine"),
        (("CASES", "--on", "t4", "--out", "eval.xyz"), "eval.xyz"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    cases: Path, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    given = [str(cases) if word == "CASES" else word.replace("eval.xyz", str(tmp_path / "eval.xyz")) for word in words]
    result = run("eval", *given)
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "eval.xyz").exists()


def test_the_backend_of_a_file_of_cases(tmp_path: Path) -> None:
    """Cases that do not say take the one of the option; those that do keep theirs."""
    one = rl.machine("h100-sxm")
    backend = next(key.backend for key in one.calibrated if str(key).startswith("gemm.bf16@"))
    path = tmp_path / "cases.csv"
    path.write_text(
        f"op,dtype,m,n,k,backend,time_us\ngemm,bf16,4096,4096,4096,,300\ngemm,bf16,4096,4096,4096,{backend},300\n"
    )
    (family,) = evaluate.evaluate(rows_of(path), Defaults(one, load, {}, {})).families
    assert family.predicted["ridgeline"][0] != family.predicted["ridgeline"][1]
    (family,) = evaluate.evaluate(rows_of(path), Defaults(one, load, {}, {"backend": backend})).families
    assert family.predicted["ridgeline"][0] == family.predicted["ridgeline"][1]
    assert run("eval", str(path), "--on", "h100-sxm", "--backend", backend).exit_code == 0


def rows_of(path: Path) -> list[dict[str, Any]]:
    return read(path)


def test_rows_that_cannot_be_judged_are_named(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("op,n,time_us\nadd,8,-3\nadd,1000,2\nadd,x,3\n" + "add,8,nan\n" * 10)
    result = run("eval", str(path), *TWO_NUMBERS)
    assert result.exit_code == 0
    named = result.stderr.splitlines()
    assert named[:2] == [
        "ridgeline: row 1, column time_us: must be a positive number of microseconds, got '-3'",
        "ridgeline: row 3, column n: must be a whole number of at least 1, got 'x'",
    ]
    assert named[9:] == [
        "ridgeline: row 11, column time_us: must be a positive number of microseconds, got 'nan'",
        "ridgeline: and 2 more rows",
    ]
