"""Kernels of an ncu report on the roofline without any cases: figures by hand, known ops, the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.app.collect import collect_next
from ridgeline.app.reports import gaps as gaps_pages
from ridgeline.core.errors import InputError
from ridgeline.core.observation import Observation
from ridgeline.core.work import Program, Step
from ridgeline.gaps import kernels
from ridgeline.gaps.counted import counted_targets, counted_work
from ridgeline.gaps.kernel_ops import NAMED, RECORDED, known_op
from ridgeline.gaps.kernels import KernelReport, Profile, ProfiledKernel, kernel_at, report_of_kernels
from ridgeline.gaps.target import target
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe
from ridgeline.render.charts.kernels import profile_chart
from ridgeline.render.tables.kernels import kernels_answer

NCU = Path(__file__).parents[1] / "fixtures" / "ncu"
HELD_OUT = Path(__file__).parents[2] / "examples" / "faults" / "held_out_6"
H200 = load("h200-sxm")


@pytest.fixture(scope="module")
def report() -> KernelReport:
    return report_of_kernels(observe.load(NCU / "h200_raw.csv"), H200)


def kernel(report: KernelReport, name: str) -> ProfiledKernel:
    return next(item for item in report.kernels if item.name == name)


def profiled(name: str = "k", **values: object) -> Observation:
    given = {"flops": {"vector.fp32": 1e9}, "bytes": {"hbm": 4e8}, "counters": {}, **values}
    return Observation(name=name, target=name, samples=(1e-4,), tool="ncu", kernel=name, **given)  # type: ignore[arg-type]


def test_figures_follow_from_counts_time_and_ceilings() -> None:
    item = profiled(flops={"tensor.bf16": 4e10, "vector.fp32": 1e9})
    (row,) = report_of_kernels([item], H200).document()
    tensor, memory = H200.peak("tensor.bf16").value, H200.bandwidth("hbm").value
    assert row["rate"] == {"tensor.bf16": pytest.approx(4e14), "vector.fp32": pytest.approx(1e13)}
    assert row["engine"] == "tensor.bf16"
    assert row["intensity"] == pytest.approx(100)
    assert row["mfu"] == pytest.approx(4e14 / tensor)
    assert row["mbu"] == pytest.approx(4e12 / memory)
    assert row["share_of_roofline"] == pytest.approx(max(4e14 / tensor, 4e12 / memory), rel=0.02)  # by access mix
    assert row["bound"] == "memory"


def test_every_kernel_of_a_report_has_its_figures(report: KernelReport) -> None:
    rows = {item.name: row for item, row in zip(report.observations, report.document(), strict=True)}
    assert len(rows) == 14
    for name, row in rows.items():
        assert {"mbu", "share_of_roofline", "bound", "limiter", "diagnosis"} <= set(row), name
        assert 0 < row["share_of_roofline"] < 1.05, name
        for cause in row["diagnosis"]:
            assert cause["status"] in ("shown", "possible")
            assert cause["evidence"] or cause["status"] == "possible", (name, cause["cause"])
    assert rows["gemm_bf16_8192"]["mfu"] > 0.9
    assert rows["triad_fp32_2^27"]["mbu"] > 0.9
    assert "mfu" not in rows["tiny_relu"]  # no FLOPs counted: absent, not 0


def test_ops_that_name_and_counters_agree_on_are_predicted(report: KernelReport) -> None:
    texts = {item.name: item.op.text for item in report.kernels if item.op is not None}
    assert texts["gemm_bf16_4096x4096x128"] == "gemm m=4096 n=4096 k=128 bf16"
    assert texts["gemm_fp64_2048"] == "gemm m=2048 n=2048 k=2048 fp64"
    assert texts["gemm_fp8_8192"].startswith("gemm m=8192 n=8192 k=8192 fp8")
    assert "flash_attention_bf16" not in texts  # no sizes in its name
    assert kernel(report, "gemm_bf16_8192").predicted == pytest.approx(1.34e-3, rel=0.05)
    assert {item.op.shown_by for item in report.kernels if item.op is not None} == {NAMED}


@pytest.mark.parametrize("name", ["gemm_bf16_4096", "gemm m=4096 n=4096 k=64", "step 12", "softmax 128x128"])
def test_a_name_that_the_counters_contradict_names_no_op(name: str) -> None:
    assert known_op(profiled(name, flops={"tensor.bf16": 2.0 * 8192**3})) is None


def test_a_recorded_call_names_the_op_and_its_sizes() -> None:
    text = "aten::mm, seq = 3, sizes = [[4096, 1024], [1024, 512]]"
    item = profiled("nvjet_gemm", flops={"tensor.bf16": 2.0 * 4096 * 1024 * 512}, path=("forward", text))
    op = known_op(item)
    assert op is not None
    assert op.shown_by == RECORDED
    assert op.work.flops == 2.0 * 4096 * 1024 * 512
    assert op.work.dtype == "bf16"
    (row,) = report_of_kernels([item], H200).document()
    assert row["op"] == "aten::mm 4096x1024 1024x512"
    assert row["predicted_us"] > row["floor_us"] > 0


def test_counted_work_has_what_was_counted_and_no_more() -> None:
    work = counted_work(profiled(flops={"tensor.bf16": 5e9, "vector.fp32": 0.0, "vector.unknown": 7.0}), H200)
    assert work is not None
    assert dict(work.by_engine()) == {("matrix", "bf16"): 5e9}
    assert work.bytes == 4e8
    assert counted_work(profiled(flops={}, bytes={}), H200) is None


def test_without_an_op_nothing_is_in_excess(report: KernelReport) -> None:
    item = kernel(report, "flash_attention_bf16")
    assert item.gap is not None
    assert (item.gap.excess_bytes, item.gap.excess_flops, item.gap.horizontal) == (None, None, None)


def test_launches_of_one_kernel_are_one_row() -> None:
    items = [profiled("a"), profiled("b"), profiled("a")]
    grouped = report_of_kernels(items, H200)
    assert [(item.name, item.launches) for item in grouped.kernels] == [("a", 2), ("b", 1)]
    assert len(grouped.document()) == 3
    assert grouped.time == pytest.approx(3e-4)


def test_times_alone_are_kept_and_called_so() -> None:
    (item,) = report_of_kernels([profiled(flops={}, bytes={})], H200).kernels
    assert (item.gap, item.share, item.bound) == (None, None, None)


def test_no_kernels_are_refused() -> None:
    with pytest.raises(InputError, match="no kernels"):
        report_of_kernels([], H200)


def test_raw_and_details_page_give_one_verdict() -> None:
    """The details page has no FLOPs: the same bounds, and no cause is shown there that the raw page does not show."""
    raw, details = (
        {item.name: item for item in report_of_kernels(observe.load(NCU / f"h200_{page}.csv"), H200).kernels}
        for page in ("raw", "details")
    )
    assert len(details) == 6
    for name, item in details.items():
        assert item.bound == raw[name].bound, name
        shown = {advice.rule for advice in item.advice if advice.shown and not advice.rule.startswith("launch-bound")}
        assert shown <= {advice.rule for advice in raw[name].advice if advice.shown}, name
        if item.share is not None and item.known == raw[name].known:
            assert item.share == pytest.approx(raw[name].share, rel=0.01), name


def test_without_counted_flops_no_share_of_roofline_is_claimed() -> None:
    product = profiled("gemm", flops={}, bytes={"hbm": 1e8}, counters={"compute_busy": 0.9, "l1_busy": 0.95})
    (item,) = report_of_kernels([product], H200).kernels
    assert (item.bound, item.share) == ("compute", None)
    stream = profiled("copy", flops={}, bytes={"hbm": 4.2e8}, counters={"compute_busy": 0.1})
    (item,) = report_of_kernels([stream], H200).kernels
    assert item.bound == "memory"
    assert item.share is not None


def test_a_library_kernel_without_its_op_is_promised_nothing_by_general_causes(report: KernelReport) -> None:
    """How fast ATen's softmax can be depends on its sizes, which its name does not have."""
    top = kernel(report, "softmax_bf16").top
    assert top is not None
    assert (top.rule, top.status, top.gain) == ("issue", "shown", None)


def test_the_moves_worth_most_are_those_of_all_kernels_diagnosed(report: KernelReport) -> None:
    """The answer diagnoses only kernels that could gain as much; the first ones are the same as of all of them."""
    gains = sorted((item.gain for item in report.kernels if item.gain > 0), reverse=True)
    assert len(gains) == 3
    fresh = report_of_kernels(report.observations, H200)
    assert [item.gain for item in fresh.moves(2)] == pytest.approx(gains[:2])
    asked = {item.name for item in fresh.kernels if "advice" in item.__dict__}
    assert "tiny_relu" not in asked  # all of its time is less than the second gain
    assert "conv3x3_fp16" in asked
    assert len(report.moves(100)) == len(gains)
    assert all(item.gain <= item.most_gain for item in report.kernels)


@pytest.mark.parametrize("name", ["h200-sxm", "mi300x", "xeon-8480plus"])
def test_kernels_predicted_together_have_the_targets_of_each_alone(name: str) -> None:
    machine = load(name)
    items = [item for file in ("raw", "faults", "details") for item in observe.load(NCU / f"h200_{file}.csv")]
    together = counted_targets([*items, profiled(flops={}, bytes={})], machine)
    assert together.pop() is None
    assert len({tuple(found.needs) for found in together if found}) > 1
    for item, found in zip(items, together, strict=True):
        work = counted_work(item, machine)
        assert (work is None) == (found is None), item.name
        if work is not None:
            alone = target(predict(Program((Step(work.name, work),)), machine), (0,))
            assert found == replace(alone, algorithm_known=False), item.name


def test_one_kernel_of_a_profile_is_that_of_the_report(report: KernelReport) -> None:
    profile = Profile.of(report.observations)
    for place in (0, 3):
        alone = kernel_at(profile, H200, place)
        assert (alone.name, alone.gap, alone.diagnosis) == (report.kernels[place].name, report.kernels[place].gap, report.kernels[place].diagnosis)  # fmt: skip


def test_an_answer_from_the_longest_kernels_alone_says_so(
    report: KernelReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any("diagnosed" in line for line in kernels_answer(report))
    monkeypatch.setattr(kernels, "MAX_DIAGNOSED", 4)
    fresh = report_of_kernels(report.observations, H200)
    share = sum(item.time for item in fresh.kernels[:4]) / fresh.time
    assert fresh.searched_share(fresh.moves(3), 3) == pytest.approx(share)
    assert sum("advice" in item.__dict__ for item in fresh.kernels) == 4
    assert "were diagnosed" in kernels_answer(fresh)[-1]
    best = fresh.moves(1)  # worth more than any other kernel can gain
    assert fresh.searched_share(best, 1) == 1


def test_pointwise_kernels_of_one_range_pass_tensors_through_memory() -> None:
    """Five calls of torch in a range took 388 us on an H200, and one kernel 92."""
    chain = [item for item in observe.load(HELD_OUT / "record" / "kernels.csv") if item.name == "gate_a"]
    named = [found.top for found in report_of_kernels(chain, H200).kernels]
    shown = [top for top in named if top is not None and top.shown and top.rule == "unfused neighbour"]
    assert len(shown) == 4
    assert 1 / 1.5 < sum(top.gain or 0.0 for top in shown) / 295e-6 < 1.5
    apart = [replace(item, name=f"kernel {place}") for place, item in enumerate(chain)]
    assert not any(top.shown for found in report_of_kernels(apart, H200).kernels for top in found.advice)


def test_kernels_of_one_range_are_told_apart_and_none_asks_for_what_no_counter_shows() -> None:
    items = [
        item
        for item in observe.load(HELD_OUT.with_name("held_out_7") / "record" / "kernels.csv")
        if item.name == "heads_a"
    ]
    made = report_of_kernels(items, H200)
    assert "heads_a (direct_copy): keep data in the layout that is needed" in kernels_answer(made)[1]
    assert not collect_next(made)


def test_flops_that_name_no_engine_are_placed_where_the_memory_limits_on_any() -> None:
    stream = Observation("triad", "triad", (1e-4,), "plain", flops={"all": 2e6}, bytes={"main": 2.4e7})
    product = replace(stream, name="product", flops={"all": 1.4e11}, bytes={"main": 1e8})
    report = report_of_kernels([stream, product], load("h100-sxm"))
    first, second = report.kernels
    assert first.bound == "latency"
    assert second.gap is None  # as far as the counts show, it may run at the peak of its engine
    figures = [kernel.document(kernel.typical) for kernel in report.kernels]
    assert [figure["intensity"] for figure in figures] == [pytest.approx(1 / 12), 1400]
    assert any("name the column flops.vector.fp32 or flops.tensor.bf16" in line for line in kernels_answer(report))
    assert "1 kernel on the roofline" in profile_chart(load("h100-sxm"), [stream]).title


def test_the_page_of_a_long_profile_lists_the_longest_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps_pages, "MAX_KERNELS", 2)
    items = [Observation(str(time), str(time), (time * 1e-6,), "plain", bytes={"hbm": 1e6}) for time in (1, 3, 2, 4)]
    page = gaps_pages.kernel_page(report_of_kernels(items, load("h100-sxm")))
    (table,) = page.sections[0].tables
    assert [row["name"] for row in table.rows] == ["4", "3"]
    assert [row["name"] for row in page.document] == ["3", "4"]
    assert table.notes[-1].startswith("the 2 longest of 4 kernels, 70 % of the time")
