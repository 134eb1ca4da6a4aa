"""The charts as values: where roofs, ridges, points and bars stand, before anything is drawn."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.errors import InputError, UnknownName
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine, two_number
from ridgeline.core.units import show
from ridgeline.prediction.kernel_sets import predict_set
from ridgeline.prediction.precisions import precision_sweep
from ridgeline.prediction.predict import Prediction
from ridgeline.programs import ops
from ridgeline.render.chart import Axis, Chart, Line, Panel, Picture, Point, document, read, step_sizes
from ridgeline.render.charts import CHARTS, find
from ridgeline.render.charts.answers import cases
from ridgeline.render.charts.gaps import Observed, gaps
from ridgeline.render.charts.machines import bandwidth_bars, waterfall
from ridgeline.render.charts.plane import MAX_SHAPE, MIN_SHAPE, widened
from strategies import law

A100 = rl.machine("a100-sxm-80gb")
H100 = rl.machine("h100-sxm")
KINDS = {
    "gpu": A100,
    "cpu": rl.machine("epyc-9654"),
    "tpu": rl.machine("tpu-v5e"),
    "model": two_number(1e13, 1e12, 2e-6),
}
TERA = 1e12


def chart_of(picture: Picture) -> Chart:
    assert isinstance(picture, Chart)
    return picture


def roofline(machine: Machine, predictions: Prediction | list[Prediction] | tuple[()] = (), **options: Any) -> Chart:
    return chart_of(rl.plot(machine, predictions, **options).chart)


def roofs(chart: Chart, role: str) -> list[Line]:
    return [line for line in chart.lines if line.role == role]


def ridge_values(chart: Chart) -> list[float]:
    return sorted(point.x for point in chart.points if point.role == "ridge")


def slope(line: Line) -> float:
    """Rise over run on log-log axes."""
    (x0, y0), (x1, y1) = line.points[0], line.points[-1]
    return (math.log(y1) - math.log(y0)) / (math.log(x1) - math.log(x0))


# -- the roofline itself ----------------------------------------------------------------------------------


@law(60)
@given(st.floats(1e6, 1e18), st.floats(1e6, 1e15))
def test_bandwidth_roof_has_slope_one_and_compute_roof_slope_zero_on_any_machine(peak: float, bandwidth: float) -> None:
    chart = roofline(two_number(peak, bandwidth))
    (sloped,), (flat,) = roofs(chart, "bandwidth"), roofs(chart, "peak")
    assert (chart.x.scale, chart.y.scale) == ("log", "log")
    assert slope(sloped) == pytest.approx(1)
    assert [y for _, y in flat.points] == pytest.approx([peak, peak])
    assert sloped.points[-1] == pytest.approx(flat.points[0])  # they meet at the ridge
    assert sloped.points[-1][0] == pytest.approx(peak / bandwidth)
    assert all(y == pytest.approx(x * bandwidth) for x, y in sloped.points)


def test_doubling_the_bandwidth_shifts_the_roof_and_keeps_its_slope() -> None:
    before, after = (roofs(roofline(two_number(1e12, speed)), "bandwidth")[0] for speed in (1e9, 2e9))
    assert slope(before) == pytest.approx(slope(after)) == pytest.approx(1)
    assert after.points[0][1] / after.points[0][0] == pytest.approx(2 * before.points[0][1] / before.points[0][0])


@law(40)
@given(
    st.lists(st.tuples(*[st.integers(1, 20000)] * 3), min_size=1, max_size=6),
    st.floats(1e9, 1e16),
    st.floats(1e8, 1e13),
)
def test_points_stand_under_their_roof_and_inside_the_axes(
    shapes: list[tuple[int, int, int]], peak: float, bandwidth: float
) -> None:
    machine = two_number(peak, bandwidth, 1e-6)
    chart = roofline(machine, [rl.predict(ops.gemm(*shape), machine) for shape in shapes])
    for point in chart.points:
        assert point.y <= min(peak, bandwidth * point.x) * (1 + 1e-9)
        assert chart.x.range[0] <= point.x <= chart.x.range[1]
        assert chart.y.range[0] <= point.y <= chart.y.range[1]


def test_the_examples_of_a_roofline_are_named_and_the_ridge_is_in_the_legend() -> None:
    chart = chart_of(CHARTS["roofline"](A100, dtype="fp32"))
    names = " ".join(point.name for point in chart.points)
    assert all(word in names for word in ("axpy", "conv2d", "gemm"))
    assert [mark.label for mark in chart.marks] == ["ridge 9.56 FLOP/B"]
    assert [region.label for region in chart.regions] == ["memory-bound", "compute-bound"]
    assert chart.x.title == "arithmetic intensity (FLOP/B)"
    assert chart.y.title == "performance (FLOP/s)"


def test_a_point_is_flops_over_expected_time_with_a_mark_on_the_roof() -> None:
    prediction = rl.predict(ops.gemm(m=4096, n=14336, k=4096), H100)
    chart = roofline(H100, [prediction])
    expected, floor = (next(point for point in chart.points if point.role == role) for role in ("expected", "floor"))
    assert expected.y == pytest.approx(prediction.flops / prediction.time)
    assert floor.y == pytest.approx(prediction.attainable)
    assert expected.x == floor.x == pytest.approx(prediction.intensity)
    (guide,) = roofs(chart, "guide")
    assert guide.points == ((expected.x, expected.y), (floor.x, floor.y))


def test_work_without_flops_is_told_in_bytes_per_second_and_left_off_the_log_axis() -> None:
    prediction = rl.predict(ops.copy(n=1e8), A100)
    chart = roofline(A100, [prediction])
    assert not [point for point in chart.points if point.role != "ridge"]
    assert "copy 1e8 does no flops" in chart.notes[0]
    assert "TB/s" in chart.notes[0]
    (row,) = chart.unplaced
    assert row["bandwidth"] == pytest.approx(prediction.bytes / prediction.time)
    assert any(each["what"] == "unplaced" for each in chart.rows())


def test_work_bound_by_a_link_has_no_place_under_a_memory_roof() -> None:
    chart = roofline(H100, [rl.predict(ops.all_reduce(bytes=2**26, ranks=8), H100)])
    assert not [point for point in chart.points if point.role != "ridge"]
    assert any("all_reduce" in note for note in chart.notes)


def test_small_work_is_marked_as_overhead() -> None:
    chart = roofline(H100, [rl.predict(ops.gemm(16, 16, 16), H100)])
    assert "overhead" in [point.role for point in chart.points]
    assert any("launch" in note for note in chart.notes)


def test_a_sweep_gives_a_point_per_value_and_a_vast_one_is_refused() -> None:
    batches = np.array([1, 8, 64, 512, 4096])
    chart = roofline(A100, rl.predict(ops.linear(batch=batches, in_features=4096, out_features=4096), A100))
    points = [point for point in chart.points if point.role in ("expected", "overhead")]
    assert len(points) == 5
    # named where it begins, where the bound changes and where it ends
    assert [point.label for point in points] == ["batch 1", "", "", "batch 512", "batch 4096"]
    (line,) = roofs(chart, "series")
    assert line.points == tuple(point.spot for point in points)
    assert chart.title == "linear 4096→4096 in bf16 on a100-sxm-80gb, batch 1 to 4096"
    with pytest.raises(InputError, match="more than a chart can show"):
        roofline(A100, rl.predict(ops.axpy(n=np.arange(1, 9000)), A100))


def test_a_sweep_of_two_sizes_is_a_line_for_each_value_of_the_shorter() -> None:
    sizes = [(m, n) for n in (1024.0, 4096.0) for m in (16.0, 64.0, 256.0)]
    m, n = (np.array(values) for values in zip(*sizes, strict=True))
    chart = roofline(A100, rl.predict(ops.gemm(m=m, n=n, k=4096), A100))
    assert [(line.label, len(line.points)) for line in roofs(chart, "series")] == [("n 1024", 3), ("n 4096", 3)]


def test_the_picture_of_one_prediction_answers_it() -> None:
    machine = rl.machine("h200-sxm")
    prediction = rl.predict(ops.gemm(m=4096, n=14336, k=4096), machine)
    chart = roofline(machine, [prediction])
    assert chart.title == "gemm 4096x14336x4096 in bf16 on h200-sxm"
    (point,) = [point for point in chart.points if point.role == "expected"]
    assert (
        point.label == f"{show(float(prediction.time), 's', 3)}, {float(prediction.efficiency) * 100:.0f} % of roofline"
    )
    # one ridge: that of the prediction, with the bandwidth of its access mix
    assert [mark.value for mark in chart.marks] == pytest.approx([float(prediction.ridge)])
    assert ridge_values(chart) == pytest.approx([float(prediction.ridge)])


def test_programs_and_resident_data_use_their_own_roofs() -> None:
    chart = roofline(A100, [rl.predict(ops.gemm(512, 512, 512), A100, resident="l2")])
    assert [line.details["level"] for line in roofs(chart, "bandwidth")] == ["l2"]


# -- numbers the requirements fix -------------------------------------------------------------------------


def test_ceilings_of_an_a100_are_three_parallel_lines_and_three_flat_ones() -> None:
    chart = chart_of(CHARTS["ceilings"](A100))
    sloped, flat = roofs(chart, "bandwidth"), roofs(chart, "peak")
    assert [slope(line) for line in sloped] == pytest.approx([1, 1, 1])
    assert sorted(line.points[0][1] / TERA for line in flat) == pytest.approx([19.5, 156, 312])
    assert ridge_values(chart)[-1] == pytest.approx(312e12 / 2039e9)


def test_precisions_of_an_a100_mark_five_ridges() -> None:
    chart = chart_of(CHARTS["precisions"](A100))
    assert len(roofs(chart, "bandwidth")) == 1
    assert ridge_values(chart) == pytest.approx([9.56, 76.5, 153.0, 306.0, 612.1], rel=1e-3)
    kernels = {point.group: point for point in chart.points if point.role == "value"}
    assert kernels.keys() == {"fp64", "fp32", "tf32", "bf16", "fp16", "int8", "int4"}
    assert kernels["fp32"].x < kernels["bf16"].x < kernels["int8"].x
    assert all("time_us" in point.details for point in kernels.values())


def test_precisions_draw_the_op_and_the_formats_that_were_asked_for() -> None:
    sweep = precision_sweep(ops.find("gemm"), {"m": 64, "n": 4096, "k": 4096}, A100, ["fp32", "bf16"])
    chart = chart_of(CHARTS["precisions"](A100, sweep=sweep))
    points = [point for point in chart.points if point.role == "value"]
    assert [point.group for point in points] == ["fp32", "bf16"]
    assert all("gemm 64x4096x4096" in point.name for point in points)
    assert "gemm 64x4096x4096" in chart.title


def test_compare_draws_the_op_on_every_machine() -> None:
    chart = chart_of(CHARTS["compare"](A100, machines=[A100, H100], dtype="bf16", works=[ops.gemm(256, 4096, 4096)]))
    points = [point for point in chart.points if point.role in ("expected", "overhead")]
    assert [point.group for point in points] == ["a100-sxm-80gb", "h100-sxm"]
    assert "gemm 256x4096x4096" in chart.title


def test_locality_states_stand_at_their_own_intensity_under_their_own_ceiling() -> None:
    """One kernel, so one rate; three levels, so three intensities, joined by a line; the slowest level sets the rate."""
    chart = chart_of(CHARTS["locality"](A100))
    points = [point for point in chart.points if point.role == "value"]
    assert [point.group for point in points] == ["HBM", "L2", "L1"]
    assert len({point.y for point in points}) == 1
    shares = []
    for point in points:
        speed = A100.bandwidth(str(point.details["level"])).value
        assert point.x == pytest.approx(point.details["flops"] / point.details["bytes"])
        shares.append(point.y / min(A100.peak("tensor.bf16").value, speed * point.x))
    assert max(shares) == pytest.approx(1)
    assert len({point.x for point in points}) == 3
    (joined,) = roofs(chart, "guide")
    assert set(joined.points) == {point.spot for point in points}


def test_locality_of_a_stream_has_the_same_bytes_everywhere() -> None:
    """No model counts its traffic at the caches, so there is one dot and a note."""
    chart = chart_of(CHARTS["locality"](A100, work=ops.axpy(n=1e6, dtype="fp32")))
    assert [(point.group, round(point.x, 6)) for point in chart.points if point.role == "value"] == [
        ("HBM", round(1 / 6, 6))
    ]
    assert any(note.startswith("L2, L1: no traffic counted") for note in chart.notes)


def test_energy_reaches_half_of_its_ceiling_at_the_balance_point() -> None:
    chart = chart_of(CHARTS["energy"](A100, per_flop=0.3e-12, per_byte=20e-12, static=0.0))
    (mark,) = chart.marks
    assert mark.value == pytest.approx(66.7, rel=1e-3)
    (curve,) = roofs(chart, "series")
    below, above = ([y for x, y in curve.points if (x < mark.value) is side] for side in (True, False))
    assert below[-1] <= 0.5 / 0.3e-12 <= above[0]
    assert all(first < second for (_, first), (_, second) in pairwise(curve.points))
    gemm = next(point for point in chart.points if point.name == "gemm 4096³")
    assert gemm.y == pytest.approx(3178e9, rel=1e-3)  # static power aside, as the source material works it out
    assert chart.y.range[1] > 1 / 0.3e-12


def test_energy_figures_that_nobody_measured_are_asked_for() -> None:
    with pytest.raises(InputError, match=r"no energy figure for flop\.tensor\.bf16 and byte\.hbm"):
        CHARTS["energy"](A100)


def test_communication_has_a_ridge_for_every_link() -> None:
    chart = chart_of(CHARTS["communication"](A100))
    ridges = {point.name: point.x for point in chart.points if point.role == "ridge"}
    assert ridges["ridge of nvlink"] == pytest.approx(1040)
    assert ridges["ridge of nic"] == pytest.approx(312e12 / 25e9)
    assert ridges["ridge of pcie"] == pytest.approx(312e12 / 31.5e9)
    assert ridges["ridge of 100 Gbit/s NIC"] == pytest.approx(24960)
    assert [slope(line) for line in roofs(chart, "bandwidth")] == pytest.approx([1] * 5)
    eight, many = (point for point in chart.points if "data parallel" in point.name)
    assert (eight.group, many.group) == ("compute-bound", "link-bound")


def test_anatomy_names_both_roofs_the_ridge_and_a_kernel_of_each_bound() -> None:
    chart = chart_of(CHARTS["anatomy"](H100))
    labels = [line.label for line in chart.lines] + [mark.label for mark in chart.marks]
    assert all(
        any(label.startswith(word) for label in labels) for word in ("memory roof", "compute roof", "ridge point")
    )
    assert {point.group for point in chart.points if point.role == "value"} == {"memory-bound", "compute-bound", "overhead-bound"}  # fmt: skip
    assert chart.arrows


@law(40)
@given(st.floats(1e6, 1e18), st.floats(1e6, 1e15))
def test_a_roofline_is_neither_flat_nor_tall_with_equal_decades(peak: float, bandwidth: float) -> None:
    chart = roofline(two_number(peak, bandwidth))
    across, up = (math.log10(axis.range[1] / axis.range[0]) for axis in (chart.x, chart.y))
    assert chart.equal_decades
    assert MIN_SHAPE - 1e-9 <= up / across <= MAX_SHAPE + 1e-9


def test_the_area_of_a_dot_is_its_share_of_the_time() -> None:
    works = {"long": ops.gemm(4096, 4096, 4096), "short": ops.gelu(n=1e6)}
    chart = cases(predict_set(A100, works.items(), title="two"))
    shares = {point.name: point.share for point in chart.points if point.share is not None}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["long"] > shares["short"]


def test_blas_levels_cluster_and_gemm_crosses_the_ridge() -> None:
    chart = chart_of(CHARTS["blas"](A100))
    at = {
        group: [point.x for point in chart.points if point.group == group]
        for group in ("level 1", "level 2", "level 3")
    }
    assert all(0 < x <= 0.5 for x in at["level 1"])
    assert all(0.24 < x <= 1 for x in at["level 2"])
    assert sorted(set(at["level 3"])) == pytest.approx([64 / 6, 256 / 6, 1024 / 6, 4096 / 6])
    assert "N = 58" in chart.notes[0]


def test_deep_learning_ops_are_coloured_by_category_under_two_roofs() -> None:
    chart = chart_of(CHARTS["dl"](A100))
    assert {"elementwise", "norm", "attention", "conv", "gemm"} <= set(chart.groups())
    assert sorted(line.details["engine"] for line in roofs(chart, "peak")) == ["tensor.bf16", "vector.fp32"]
    relu, scores = (next(point for point in chart.points if point.name == name) for name in ("relu", "QK^T"))
    assert relu.x == pytest.approx(0.25)
    assert scores.x == pytest.approx(113.78, rel=1e-4)
    single = chart_of(CHARTS["dl"](A100, works=[ops.softmax(rows=64, cols=64, dtype="fp32")]))
    assert next(point.x for point in single.points if point.group == "norm") == pytest.approx(0.625)


def test_scale_has_the_ops_and_the_ridge_of_the_chosen_precision() -> None:
    chart = chart_of(CHARTS["scale"](A100, dtype="fp16"))
    found = [point.x for point in chart.points if point.role == "value"]
    assert found == pytest.approx([1 / 12, 0.25, 1024 / 6], rel=1e-6)
    assert chart.marks[0].value == pytest.approx(153.02, rel=1e-3)


def test_peaks_are_bars_with_computed_factors() -> None:
    chart = chart_of(CHARTS["peaks"](A100))
    assert chart.x.scale == "linear"
    assert chart.x.range[0] == 0
    values = {bar.label: bar for bar in chart.bars}
    for value in (9.7, 19.5, 156, 312, 624):
        assert any(bar.value == pytest.approx(value * TERA) for bar in chart.bars)
    assert "32x fp64" in values["bf16, fp16 tensor"].text
    assert "16x fp32" in values["bf16, fp16 tensor"].text
    assert not any("sparse" in bar.label for bar in chart.bars)
    assert "vector peak" in chart.notes[0]


def test_pyramid_tells_capacity_of_one_and_of_all() -> None:
    texts = {bar.label.split()[0]: bar.text for bar in chart_of(CHARTS["pyramid"](A100)).bars}
    assert texts["registers"].endswith("27 MiB")
    assert "192 KiB x 108 = 20.25 MiB" in texts["L1"]
    assert "19.49 TB/s" in texts["L1"]
    assert texts["L2"].startswith("40 MiB")
    assert texts["HBM"].startswith("80 GiB")


def test_efficiency_rises_with_size_and_small_sizes_are_overhead() -> None:
    chart = chart_of(CHARTS["efficiency"](A100))
    points = [point for point in chart.points if point.role in ("expected", "overhead")]
    assert points[0].role == "overhead"
    assert points[-1].role == "expected"
    rates = [point.y for point in points]
    assert rates[0] < rates[3] < rates[-1] < roofs(chart, "peak")[0].points[0][1]


def test_batch_saturates_and_marks_the_critical_batch() -> None:
    chart = chart_of(CHARTS["batch"](A100, dtype="fp16"))
    marks = {mark.role: mark.value for mark in chart.marks}
    assert marks["saturation"] == pytest.approx(2048)
    assert marks["ridge"] == pytest.approx(153.02, rel=1e-3)
    at = {point.x: point.y for point in chart.points if point.role == "value"}
    assert [at[1], at[256], at[1024]] == pytest.approx([0.99951, 227.56, 682.67], rel=1e-4)
    critical = next(point for point in chart.points if point.role == "ridge")
    assert critical.y >= marks["ridge"]
    never = chart_of(CHARTS["batch"](A100, dtype="fp16", in_features=256, out_features=256))
    assert any("never" in note for note in never.notes)
    assert not [point for point in never.points if point.role == "ridge"]


def test_compare_has_the_roofs_and_ridge_of_every_machine() -> None:
    chart = chart_of(CHARTS["compare"](A100, machines=[A100, H100], dtype="bf16"))
    assert chart.groups() == ["a100-sxm-80gb", "h100-sxm"]
    assert [mark.value for mark in chart.marks] == pytest.approx([153.02, 295.3], rel=1e-3)
    assert [slope(line) for line in roofs(chart, "bandwidth")] == pytest.approx([1, 1])


def test_phases_show_the_same_ops_and_products_move_left() -> None:
    panel = CHARTS["phases"](H100)
    assert isinstance(panel, Panel)
    prefill, decode = panel.charts
    assert prefill.x.range == decode.x.range
    assert prefill.y.range == decode.y.range
    where = [
        {point.name: point.x for point in chart.points if point.role in ("expected", "overhead")}
        for chart in panel.charts
    ]
    assert where[0].keys() == where[1].keys()
    assert where[1]["mlp"] < H100.ridge("tensor.bf16") < where[0]["mlp"]


def test_trend_is_relative_to_the_first_generation() -> None:
    chart = chart_of(CHARTS["trend"](H100, machines=[A100, H100], dtype="bf16"))
    ends = {line.group: line.points[-1][1] for line in chart.lines}
    assert ends["peak"] == pytest.approx(989.4 / 312)
    assert ends["ridge"] == pytest.approx(ends["peak"] / ends["bandwidth"])
    with pytest.raises(InputError, match="two generations"):
        CHARTS["trend"](H100, machines=[H100])


def test_gaps_are_arrows_to_the_roof_and_a_target_to_the_right() -> None:
    chart = gaps(A100, [Observed("saxpy", 1 / 6, 300e9, 1 / 3)], dtype="fp32")
    (arrow,) = chart.arrows
    assert arrow.end[1] / arrow.start[1] == pytest.approx(1.1328, rel=1e-3)
    target = next(point for point in chart.points if point.role == "target")
    dot = next(point for point in chart.points if point.role == "observed")
    assert (target.x, target.y) == pytest.approx((1 / 3, dot.y))
    assert roofs(chart, "target")[0].points == ((dot.x, dot.y), (target.x, target.y))
    assert {point.label for point in chart_of(CHARTS["gaps"](A100)).points} >= {"M", "C"}


def test_a_point_above_the_roof_is_said_to_be_impossible() -> None:
    chart = gaps(A100, [Observed("too good", 1.0, 9e12)], dtype="fp32")
    assert any("above the roof" in note for note in chart.notes)


def test_bandwidth_bars_give_the_share() -> None:
    chart = bandwidth_bars([("A100", 2039e9, 1880e9), ("H100", 3352e9, None)])
    assert [bar.label for bar in chart.bars] == ["A100", "A100", "H100"]
    assert chart.bars[1].details["share"] == pytest.approx(1880 / 2039)
    assert "92.2 %" in chart.bars[1].text


@law(50)
@given(st.floats(1e6, 1e15), st.lists(st.floats(0, 0.2), max_size=4), st.floats(0.05, 1.0))
def test_a_waterfall_sums_to_what_was_measured(peak: float, shares: list[float], reached: float) -> None:
    chart = waterfall(
        "x", "B/s", peak, [(f"cause {index}", share * peak) for index, share in enumerate(shares)], reached * peak
    )
    lost = sum(bar.value - (bar.start or 0.0) for bar in chart.bars if bar.role == "loss")
    rest = sum(bar.details["remainder"] for bar in chart.bars if bar.role == "unexplained")
    assert peak - lost - rest == pytest.approx(reached * peak, rel=1e-6)


def test_losses_beyond_the_peak_are_refused() -> None:
    with pytest.raises(InputError, match="does not fit"):
        waterfall("x", "B/s", 100.0, [("all", 150.0)], 50.0)


# -- every chart, every kind of machine -------------------------------------------------------------------


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_works_or_says_why_not(name: str, kind: str) -> None:
    try:
        picture = CHARTS[name](KINDS[kind])
    except InputError:
        assert kind != "gpu" or name == "energy"  # others may lack what a chart needs; few have energy figures
        return
    values = document(picture)
    text = json.dumps(values, allow_nan=False)
    assert document(read(json.loads(text))) == values
    columns, rows = picture.table()
    assert rows
    assert all(len(row) == len(columns) for row in rows)
    assert json.dumps(rows, allow_nan=False)
    for chart in picture.charts:
        for point in chart.points:
            assert chart.x.range[0] <= point.x <= chart.x.range[1]
            assert chart.y.range[0] <= point.y <= chart.y.range[1]


def test_the_registry_describes_itself_and_refuses_unknown_options() -> None:
    assert all(kind.summary.endswith(".") for kind in CHARTS.values())
    with pytest.raises(InputError, match="the batch chart has no machines to choose"):
        CHARTS["batch"](A100, machines=[A100])
    assert CHARTS["batch"](A100, machines=None)  # an option that was not given is no option
    with pytest.raises(UnknownName, match="did you mean roofline"):
        find("rooflin")


def test_a_machine_without_bandwidth_has_nothing_to_draw() -> None:
    with pytest.raises(InputError):
        CHARTS["ceilings"](Machine("bare"))


# -- the description --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "span"), [("log", (0.0, 1.0)), ("linear", (1.0, 1.0)), ("linear", (0.0, math.inf)), ("cubic", (0.0, 1.0))]
)
def test_an_axis_that_cannot_be_drawn_is_refused(scale: str, span: tuple[float, float]) -> None:
    with pytest.raises(InputError):
        Axis("x", "", scale, span)


def test_a_newer_document_is_refused() -> None:
    with pytest.raises(InputError, match="schema"):
        read({"schema": "ridgeline.chart/99"})


def test_values_json_does_not_know_become_null() -> None:
    chart = Chart(
        "x",
        "t",
        Axis("a"),
        Axis("b"),
        points=(Point(0.5, 0.5, details={"n": np.float64(2), "bad": math.nan, "many": np.arange(2)}),),
    )
    details = document(chart)["points"][0]["details"]
    assert details == {"n": 2.0, "bad": None, "many": [0, 1]}


def test_integer_formats_are_counted_in_operations() -> None:
    chart = roofline(A100, dtype="int8")
    assert chart.y.title == "performance (OP/s)"
    assert "624 TOP/s" in roofs(chart, "peak")[0].label


@pytest.mark.parametrize("name", ["losses", "bandwidth"])
def test_a_measurement_alone_loses_nothing_and_the_message_says_what_is_missing(name: str) -> None:
    """A machine no document speaks of: its measured figure is no limit that it could be held against."""
    main = Level("memory", Figure("B/s", measured=5e10), Figure("B"))
    machine = Machine("own", peaks={"vector.fp32": Figure("flop/s", measured=8e10)}, levels=(main,))
    with pytest.raises(InputError, match="has no stated or derived"):
        CHARTS[name](machine)


def test_losses_of_a_measured_machine_tell_the_power_limit_apart() -> None:
    """The H200's bf16 burst and its lasting rate: what heat and power take, and a remainder nobody has explained."""
    machine = rl.machine("h200-sxm")
    figure = machine.peaks["tensor.bf16"]
    panel = CHARTS["losses"](machine)
    compute = panel.charts[1]
    bars = {bar.label: bar for bar in compute.bars}
    power = next(bar for label, bar in bars.items() if "power limit" in label)
    assert abs(power.value - (power.start or 0.0)) == pytest.approx(figure.measured - figure.sustained)
    assert any(bar.role == "unexplained" for bar in compute.bars)
    assert compute.bars[-1].value == pytest.approx(figure.sustained)


@pytest.mark.parametrize("name", ["roofline", "ceilings", "compare"])
def test_a_wider_plane_has_the_same_roofs_up_to_its_edges(name: str) -> None:
    options = {"machines": [rl.machine("h100-sxm"), rl.machine("a100-sxm-80gb")]} if name == "compare" else {}
    chart = find(name)(rl.machine("h100-sxm"), **options)
    assert isinstance(chart, Chart)
    (left, right), (low, high) = chart.x.range, chart.y.range
    wide = widened(chart, ((left / 10, right / 2), (low * 2, high * 10)))
    assert (wide.x.range, wide.y.range) == ((left / 10, right), (low, high * 10))  # never smaller
    wider = widened(chart, ((left * 2, right * 10), (low, high)))
    for before, after, further in zip(chart.lines, wide.lines, wider.lines, strict=True):
        if before.role == "bandwidth":
            assert after.points == ((left / 10, left / 10 * before.details["bandwidth"]), before.points[-1])
        elif before.role == "peak":
            assert further.points == (before.points[0], (right * 10, before.points[-1][1]))
    assert next(region.x for region in wide.regions if region.x)[0] == left / 10
    assert wide.points == chart.points
    assert widened(wide, (chart.x.range, chart.y.range)) == wide


def test_a_main_memory_of_unknown_capacity_is_not_drawn_smaller_than_the_caches() -> None:
    chart = chart_of(CHARTS["pyramid"](rl.machine("xeon-8480plus")))
    sizes = step_sizes(chart)
    assert math.isnan(chart.bars[-1].value)
    assert sizes[-1] == max(sizes)


def test_the_scale_shades_only_what_holds_on_every_engine_it_shows() -> None:
    chart = chart_of(CHARTS["scale"](A100, dtype="fp16"))
    ridges = [point.x for point in chart.points if point.role == "ridge"]
    assert [region.x for region in chart.regions] == [(chart.x.range[0], min(ridges)), (max(ridges), chart.x.range[1])]
