"""Gap charts: dots by time, arrows that pass through no other dot, a waterfall that ends at the measured time."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import ridgeline as rl
from legible import assert_legible
from ridgeline.gaps import settle
from ridgeline.gaps.report import Report
from ridgeline.profilers.load import load
from ridgeline.programs.cases import read
from ridgeline.render.charts.gaps import MIN_ARROW_CLEARANCE, gap_waterfall, report_chart
from ridgeline.render.charts.kernels import profile_chart
from ridgeline.render.draw import mpl
from ridgeline.render.tables.gaps import report_tables

ROOT = Path(__file__).parents[2]
FAULTS = ROOT / "examples" / "faults"
H200 = rl.machine("h200-sxm")


@pytest.fixture(scope="module")
def report() -> Report:
    observations = load(FAULTS / "record" / "kernels.csv")
    return settle.reconcile(read(FAULTS / "cases.csv"), H200, observations).report


def test_no_arrow_passes_through_another_dot(report: Report) -> None:
    chart = report_chart(report)
    dots = [point for point in chart.points if point.role == "observed"]
    assert chart.arrows
    for arrow in chart.arrows:
        for dot in dots:
            if dot.spot != arrow.start and abs(math.log10(dot.x / arrow.start[0])) < MIN_ARROW_CLEARANCE:
                assert not arrow.start[1] <= dot.y <= arrow.end[1]


def test_dots_share_out_the_time(report: Report) -> None:
    shares = [point.share for point in report_chart(report).points if point.role == "observed"]
    assert sum(share or 0.0 for share in shares) == pytest.approx(1)


def test_the_chart_shows_the_share_of_roofline_of_the_table(report: Report) -> None:
    shares = {row["name"]: row["share"] for row in report_tables(report)[0].rows}
    dots = [point for point in report_chart(report).points if point.role == "observed"]
    assert {dot.name: dot.details["share_of_roofline"] for dot in dots} == {dot.name: shares[dot.name] for dot in dots}
    named = [dot for dot in dots if dot.label and shares[dot.name] > 0.01]
    assert len(named) > 5
    for dot in named:
        assert dot.label.endswith(f" {100 * shares[dot.name]:.0f} %")


def test_a_waterfall_leads_from_the_floor_to_the_measured_time(report: Report) -> None:
    item = next(item for item in report.items if item.name == "naive_gemm")
    chart = gap_waterfall(report, "naive_gemm")
    assert chart.bars[0].value == pytest.approx(item.gap.target.floor)
    assert chart.bars[-1].value == pytest.approx(item.gap.measured)
    steps = [bar for bar in chart.bars if bar.role in ("loss", "unexplained")]
    assert sum(bar.details["us"] for bar in steps) == pytest.approx(
        (item.gap.measured - item.gap.target.floor) * 1e6, rel=0.02
    )


def test_a_profile_has_a_dot_for_every_kernel_with_counts() -> None:
    chart = profile_chart(H200, load(ROOT / "tests" / "fixtures" / "ncu" / "h200_raw.csv"))
    dots = {point.name: point for point in chart.points if point.role == "observed"}
    assert len(dots) == 12
    # neither computes anything: the copy has only HFMA2 that move constants
    assert any("tiny_relu" in note and "strided_copy_fp32" in note for note in chart.notes)
    assert dots["gemm_fp8_8192"].group == "compute-bound"
    assert dots["triad_fp32_2^27"].group == "memory-bound"


def test_gap_charts_can_be_read(report: Report) -> None:
    assert_legible(mpl.draw(report_chart(report), "dark"))
    assert_legible(mpl.draw(gap_waterfall(report, "naive_gemm")))
    assert_legible(mpl.draw(profile_chart(H200, load(ROOT / "tests" / "fixtures" / "ncu" / "h200_raw.csv"))))
