"""A traced program shown: parts that add up, an icicle whose bars fit into each other, memory, the timeline."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

import ridgeline as rl
from legible import assert_legible
from ridgeline.app.notebook import html
from ridgeline.core.errors import InputError
from ridgeline.core.trace import INPUT, LIBRARY
from ridgeline.core.units import show
from ridgeline.prediction.traced import ProgramPrediction, predict_trace
from ridgeline.prediction.traced.breakdown import MODULE, VIEWS, breakdown, flame, longest
from ridgeline.prediction.traced.side_by_side import Case, SideBySide
from ridgeline.prediction.traced.summary import answer, regime_text
from ridgeline.prediction.traced.timeline import DEVICE, HOST, chrome_trace
from ridgeline.render.chart import document, read
from ridgeline.render.charts.traced import (
    CHARTS,
    clouds_chart,
    program_icicle,
    program_memory,
    program_roofline,
    side_chart,
)
from ridgeline.render.draw import mpl, terminal
from ridgeline.render.tables.traced import op_table, part_table, program_tables, side_table
from traces import Builder, perceptron

H200 = rl.machine("h200-sxm")


@pytest.fixture(scope="module")
def program() -> ProgramPrediction:
    return predict_trace(perceptron(), H200)


@pytest.mark.parametrize("by", VIEWS)
def test_the_parts_of_every_view_add_up_to_the_program(program: ProgramPrediction, by: str) -> None:
    parts = [part for part in breakdown(program, by) if part.depth == 0]
    assert sum(part.time for part in parts) == pytest.approx(program.time)
    assert sum(part.flops for part in parts) == program.flops
    assert sum(part.bytes for part in parts) == program.bytes
    assert sum(part.calls for part in parts) == 9  # two ops a layer forward, one backward; no view, nothing uncounted
    assert sum(part.share or 0.0 for part in parts) == pytest.approx(1)


def test_equal_work_is_one_row_whatever_its_module(program: ProgramPrediction) -> None:
    (gemm, relu) = breakdown(program)
    assert (gemm.label, gemm.calls) == ("gemm 4096³ bf16", 6)
    assert gemm.flops == 6 * 2 * 4096**3
    assert (relu.calls, relu.bound) == (3, "memory")


def test_numbered_modules_are_one_row_of_the_tree_with_their_number(program: ProgramPrediction) -> None:
    rows = [(part.name, part.depth, part.modules, part.calls) for part in breakdown(program, MODULE)]
    assert rows == [("Net", 0, 1, 9), ("layers.* (Layer)", 1, 3, 9), ("fc (Linear)", 2, 3, 6)]
    assert [part.depth for part in longest(breakdown(program, MODULE), 2)] == [0, 1]
    assert "  layers.* (Layer) x3" in part_table(program, MODULE).text()
    assert {item.module for item in program.ops} >= {"layers.0.fc", "layers.2"}


def test_python_prints_the_table_of_a_program_and_notebooks_show_it(program: ProgramPrediction) -> None:
    lines = repr(program.table("module")).splitlines()
    assert lines[0].split() == ["calls", "time", "share", "FLOPs", "bytes", "roofline", "bound"]
    assert lines[2].startswith("  layers.* (Layer)")
    shown = html.program(program)
    assert "net on h200-sxm, eager" in shown
    assert "gemm 4096³ bf16" in shown
    assert "<svg" in shown


def test_an_unknown_view_is_refused(program: ProgramPrediction) -> None:
    with pytest.raises(InputError, match="view of a program"):
        breakdown(program, "colour")


def test_the_cumulative_share_ends_at_all_of_it(program: ProgramPrediction) -> None:
    rows = part_table(program).rows
    assert rows[-1]["cumulative"] == pytest.approx(1)
    assert len(op_table(program).rows) == len(program.ops) == 9
    assert "mylib::mystery" in program_tables(program)[-1].text()


def test_the_answer_begins_with_the_wall_time_and_what_sets_it(program: ProgramPrediction) -> None:
    first, *others = answer(program)
    assert first.startswith("net on h200-sxm, eager: ")
    assert "device-bound" in first
    assert "by phase: forward" in "\n".join(others)
    assert "mylib::mystery x1" in "\n".join(others)
    assert program.wall_low < program.wall < program.wall_high
    width = program.wall_high - program.wall_low
    assert width == pytest.approx(program.high - program.low, rel=0.2)  # the host has little say


def test_a_regime_that_is_not_sure_says_so(program: ProgramPrediction) -> None:
    critical = program.queue.critical_host()
    assert critical is not None
    assert regime_text(program) == "device-bound"
    doubtful = replace(program, queue=program.queue.faster(host=0.95 * critical))
    assert 0.5 < doubtful.regime_confidence < 0.6
    assert regime_text(doubtful).startswith("balanced (device-bound, 5")
    beyond = replace(program, queue=program.queue.faster(host=1.05 * critical))
    assert regime_text(beyond).startswith("balanced (host-bound, 5")


def test_a_time_that_is_not_known_is_not_zero() -> None:
    b = Builder()
    b.buffer("x", (8, 8), INPUT)
    b.call("mylib::mystery", ["x"], ["x"], sort=LIBRARY)
    first, *_ = answer(predict_trace(b.trace(), H200))
    assert first.startswith("on h200-sxm, eager: time not known, no op has a prediction: ")


# -- charts --------------------------------------------------------------------------------------------------------


def test_every_bar_of_the_icicle_is_within_one_of_the_row_above(program: ProgramPrediction) -> None:
    bars = program_icicle(program).bars
    assert sum(bar.value - (bar.start or 0) for bar in bars if bar.depth == 0) == pytest.approx(program.time)
    for bar in bars:
        above = [other for other in bars if other.depth == bar.depth - 1]
        inside = [
            other
            for other in above
            if (other.start or 0) <= (bar.start or 0) + 1e-12 and bar.value <= other.value + 1e-12
        ]
        assert bar.depth == 0 or len(inside) == 1, bar.label
    assert {bar.label.partition(" ")[0] for bar in bars if bar.depth == 0} == {"forward", "backward"}
    assert max(part.depth for part in flame(program)) == 4


def test_the_highest_area_of_the_memory_chart_is_the_peak(program: ProgramPrediction) -> None:
    chart = program_memory(program)
    assert max(y for line in chart.lines for _, y in line.points) == pytest.approx(program.peak_memory)
    tops = [[y for _, y in line.points] for line in chart.lines]
    for upper, lower in itertools.pairwise(tops):
        assert all(above >= below for above, below in zip(upper, lower, strict=True))
    small = predict_trace(perceptron(), rl.two_number(1e15, 1e12))
    assert not program_memory(small).marks  # no memory size is known


def test_dots_of_the_roofline_are_at_the_intensity_of_their_work(program: ProgramPrediction) -> None:
    dots = {point.key: point for point in program_roofline(program).points if point.share is not None}
    gemm = dots["gemm 4096³ bf16"]
    assert gemm.x == pytest.approx(2 * 4096**3 / (3 * 4096**2 * 2))
    assert gemm.share == pytest.approx(breakdown(program)[0].share)
    assert sum(point.share or 0 for point in dots.values()) == pytest.approx(1)


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_of_a_program_can_be_read(program: ProgramPrediction, name: str, theme: str) -> None:
    chart = CHARTS[name](program)
    assert_legible(mpl.draw(chart, theme))
    assert read(document(chart)) == chart or name == "roofline"  # whose details hold more than JSON keeps
    for ascii_only in (False, True):
        text = terminal.draw(chart, width=72, ascii=ascii_only)
        assert all(len(line) <= 72 for line in text.splitlines())
        assert text.isascii() or not ascii_only


def test_the_bars_of_an_icicle_have_their_names_as_tips(program: ProgramPrediction) -> None:
    assert "<title>layers.* (Layer) x3: " in mpl.svg(program_icicle(program))


# -- the timeline ------------------------------------------------------------------------------------------------


def events(program: ProgramPrediction, phase: str, process: int) -> list[dict[str, Any]]:
    listed = json.loads(json.dumps(chrome_trace(program), allow_nan=False))["traceEvents"]
    return [event for event in listed if event["ph"] == phase and event["pid"] == process]


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_the_timeline_has_every_run_after_its_launch_and_none_over_another(mode: str) -> None:
    program = predict_trace(perceptron(), H200, mode)
    device, host = events(program, "X", DEVICE), events(program, "X", HOST)
    assert len(device) == 9
    assert sum(event["dur"] for event in device) == pytest.approx(program.time * 1e6)
    assert sum(event["dur"] for event in host) == pytest.approx(program.host * 1e6)
    for row in (device, host):
        assert all(event["ts"] >= -1e-6 for event in row)
        assert all(first["ts"] + first["dur"] <= second["ts"] + 1e-6 for first, second in itertools.pairwise(row))
    starts = {event["id"]: event["ts"] for event in events(program, "s", HOST)}
    for arrival in events(program, "f", DEVICE):
        assert starts[arrival["id"]] < arrival["ts"]
    peak = max(sum(event["args"].values()) for event in events(program, "C", DEVICE))
    assert peak == program.peak_memory


# -- side by side ------------------------------------------------------------------------------------------------


def study() -> SideBySide:
    cases = []
    for rows in (8, 128):  # few enough that no power limit makes eager and graph alike
        for mode in ("eager", "graph"):
            made = predict_trace(perceptron(rows), H200, mode)
            cases.append(Case({"machine": "h200-sxm", "mode": mode, "batch": rows}, made))
    return SideBySide("net", tuple(cases), "batch")


def test_a_sweep_is_compared_for_the_same_amount_of_work() -> None:
    compared = study()
    assert compared.varying == ["mode", "batch"]
    first, *_, last = compared.cases
    assert compared.speedup(first) == 1
    assert compared.speedup(last) == pytest.approx(16 * first.program.wall / last.program.wall)
    assert compared.rate(last) == pytest.approx(128 / last.program.wall)
    assert "fastest is h200-sxm, graph, batch 128" in compared.answer()[0]
    assert "batch/s" in side_table(compared).text()


def test_sweeps_are_lines_and_other_comparisons_bars() -> None:
    compared = study()
    chart = side_chart(compared)
    assert [(line.group, [x for x, _ in line.points]) for line in chart.lines] == [
        ("eager", [8, 128]),
        ("graph", [8, 128]),
    ]
    assert_legible(mpl.draw(chart))
    bars = side_chart(SideBySide("net", compared.cases[:2]))
    assert [bar.value for bar in bars.bars] == [case.program.wall for case in compared.cases[:2]]
    assert_legible(mpl.draw(bars, "dark"))


def test_cases_of_a_sweep_are_clouds_under_the_roofs_of_one_machine() -> None:
    """A dot for every op of every case, a colour for each case, and the totals of each in a note."""
    eager = SideBySide("net", study().cases[::2], "batch")
    chart = clouds_chart(eager)
    clouds = {point.group for point in chart.points if point.share}
    assert clouds == {"batch 8", "batch 128"}
    for case in eager.cases:
        totals = next(note for note in chart.notes if note.startswith(f"batch {case.setting['batch']}: "))
        assert show(case.program.flops, "flop") in totals
        assert case.program.regime in totals
    assert_legible(mpl.draw(chart))
    other = Case({"machine": "a100-sxm-80gb", "batch": 8}, predict_trace(perceptron(8), "a100-sxm-80gb"))
    with pytest.raises(InputError, match="one machine"):
        clouds_chart(SideBySide("net", (eager.cases[0], other)))


def test_what_does_not_fit_in_memory_is_never_the_fastest() -> None:
    small = predict_trace(perceptron(65536, 65536), rl.machine("t4"))
    large = predict_trace(perceptron(65536, 65536), H200)
    compared = SideBySide("net", (Case({"machine": "h200-sxm"}, large), Case({"machine": "t4"}, small)))
    assert small.fits is False
    assert "fastest is the first, h200-sxm" in compared.answer()[0]
    assert "does not fit in memory: t4" in compared.answer()[-1]
