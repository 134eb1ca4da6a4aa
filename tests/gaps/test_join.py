"""Joining: which observations belong to which steps, by name, order, family and shape; kernels put together as runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gap_samples import H200, NCU, RECORDED, amounts, observation, simple
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError
from ridgeline.core.observation import Observation
from ridgeline.core.work import Program, Step, Work
from ridgeline.gaps import kernel_families, measurement
from ridgeline.gaps.join import join
from ridgeline.gaps.kernel_families import kernel_family
from ridgeline.gaps.report import Report, reconcile
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.prediction.together import evaluate_together
from ridgeline.profilers import load as observe
from ridgeline.programs import ops
from strategies import law


def steps(*names: str, work: Work | None = None) -> Any:
    return predict(Program(tuple(Step(name, work or amounts(1e9, 1e6)) for name in names)), simple())


def test_every_recorded_kernel_is_joined_by_its_range(recorded: Report) -> None:
    assert [item.name for item in recorded.items] == list(RECORDED)
    assert {item.gap.how for item in recorded.items} == {"name"}
    assert recorded.unmatched == {"predicted": [], "observed": []}


def test_names_paths_and_ops_join() -> None:
    observed = [
        observation(1e-3, "kernel_a", path=("model", "layers.0.attn")),
        observation(2e-3, "layers.0.mlp"),
        observation(3e-3, "aten::mm", settings={"op": "head"}),
        observation(4e-3, "stranger", kernel="something_else"),
    ]
    joined = join(steps("layers.0.attn", "layers.0.mlp", "head", "absent"), observed)
    assert [(pair.steps, pair.observations[0].median, pair.how) for pair in joined.pairs] == [
        ((0,), 1e-3, "nvtx"),
        ((1,), 2e-3, "name"),
        ((2,), 3e-3, "name"),
        ((3,), 4e-3, "order"),  # one of each is left, and nothing speaks against it
    ]


def test_what_does_not_fit_is_listed_on_both_sides() -> None:
    observed = [
        observation(1e-3, "a"),
        observation(2e-3, "x", kernel="softmax_kernel"),
        observation(3e-3, "y", kernel="softmax_kernel_2"),
    ]
    report = reconcile(steps("a", "b"), observed)
    assert report.unmatched == {"predicted": ["b"], "observed": ["x", "y"]}
    assert report.verdict["unmatched_us"] == pytest.approx(5000)


def test_same_names_join_in_order() -> None:
    report = reconcile(steps("a", "a", "a"), [observation(1e-3, "a"), observation(2e-3, "a"), observation(3e-3, "a")])
    assert [item.gap.measured for item in report.items] == [1e-3, 2e-3, 3e-3]


def test_steps_of_one_fused_kernel_add_up_and_are_marked() -> None:
    """Steps of 2 and 6 ms at the memory roof; the fused kernel is told against both."""
    parts = {"mlp.norm": amounts(0, 2e9), "mlp.fc": amounts(0, 6e9)}
    prediction = predict(Program(tuple(Step(name, work) for name, work in parts.items())), simple())
    for name in ("mlp", "mlp.norm + mlp.fc"):
        (item,) = reconcile(prediction, [observation(9e-3, name, bytes={"hbm": 5e9})]).items
        assert item.gap.target.fused
        assert item.gap.target.floor == pytest.approx(8e-3)
        assert item.gap.target.time == pytest.approx(float(np.asarray(prediction.time)))
        assert any("does not move the intermediate tensors" in text for text in item.findings)
    hinted = reconcile(prediction, [observation(9e-3, "triton_0")], hints={"triton_0": ["mlp.norm", "mlp.fc"]})
    assert hinted.items[0].gap.how == "hint"
    assert hinted.items[0].gap.target.steps == ("mlp.norm", "mlp.fc")


def test_a_hint_for_a_step_that_is_not_there() -> None:
    with pytest.raises(InputError, match="unknown step of the prediction 'fc9'"):
        reconcile(steps("fc1", "fc2"), [observation(1e-3, "k")], hints={"k": "fc9"})


def test_families_join_what_names_and_order_do_not() -> None:
    program = {"mm": ops.gemm(64, 64, 64), "act": ops.gelu(4096), "sm": ops.softmax(64, 64), "lost": ops.sum(4096)}
    prediction = predict(Program(tuple(Step(name, work) for name, work in program.items())), H200)
    observed = [
        observation(1e-6, "1", kernel="vectorized_elementwise_kernel"),
        observation(2e-6, "2", kernel="cunn_SoftMaxForward"),
        observation(3e-6, "3", kernel="nvjet_tst_64x64"),
    ]
    report = reconcile(prediction, observed)
    assert {item.name: item.gap.measured for item in report.items} == {"mm": 3e-6, "act": 1e-6, "sm": 2e-6}
    assert {item.gap.how for item in report.items} == {"family"}
    assert report.unmatched == {"predicted": ["lost"], "observed": []}


def test_shapes_tell_kernels_of_one_family_apart() -> None:
    program = {"wide": ops.gemm(64, 512, 32), "tall": ops.gemm(512, 64, 16), "other": ops.gelu(4096)}
    prediction = predict(Program(tuple(Step(name, work) for name, work in program.items())), H200)
    observed = [
        observation(1e-6, "x", kernel="gemm_1", settings={"shapes": [[512, 16], [16, 64]]}),
        observation(2e-6, "y", kernel="gemm_2", settings={"shapes": [[64, 32], [32, 512]]}),
    ]
    report = reconcile(prediction, observed)
    assert {item.name: item.gap.measured for item in report.items} == {"wide": 2e-6, "tall": 1e-6}


def test_two_kernels_for_three_steps_of_a_family_are_not_guessed() -> None:
    prediction = steps("a", "b", "c", work=ops.gemm(64, 64, 64, dtype="bf16"))
    report = reconcile(prediction, [observation(1e-6, "x", kernel="gemm_1"), observation(2e-6, "y", kernel="gemm_2")])
    assert not report.items
    assert len(report.unmatched["predicted"]) == 3
    assert len(report.unmatched["observed"]) == 2
    assert report.sentence.startswith("0 % explained: no observed kernel was joined")


def test_shapes_that_speak_against_a_step_keep_a_kernel_from_it() -> None:
    """A softmax over 4 x 4 is not the softmax over 16384 x 4096 that was predicted, whatever its kernel is called."""
    prediction = predict(ops.softmax(rows=16384, cols=4096), load("h200-sxm"))

    def softmax(*shape: int) -> Observation:
        return Observation("k", "k", (1e-4,), kernel="softmax_warp_forward", settings={"shapes": [list(shape)]})

    assert not reconcile(prediction, [softmax(4, 4)]).items
    assert reconcile(prediction, [softmax(16384, 4096)]).items


def test_kernels_by_their_names() -> None:
    observed = {item.name: kernel_family(item) for item in observe.load(NCU / "h200_raw.csv")}
    assert observed["gemm_bf16_8192"] == observed["gemm_fp64_2048"] == "gemm"
    assert (observed["softmax_bf16"], observed["layernorm_bf16"]) == ("softmax", "norm")
    assert (observed["flash_attention_bf16"], observed["conv3x3_fp16"]) == ("attention", "conv")
    assert observed["triad_fp32_2^27"] == observed["strided_copy_fp32"] == "stream"


NAMED = {
    "fitting": lambda place: {"name": f"layer.{place % 300}.fc", "kernel": "gemm"},
    "not fitting": lambda place: {"name": f"k{place % 40}", "kernel": f"gemm_{place % 40}"},
    "equal": lambda place: {"name": "k", "kernel": "gemm"},
    "different": lambda place: {"name": f"k{place}", "kernel": f"softmax_{place}"},
    "modules": lambda place: {"name": f"k{place}", "path": ("layer", str(place % 7))},
    "shapes": lambda place: {"name": f"k{place}", "kernel": "gemm", "settings": {"shapes": [[place % 99, 64], [64, 64]]}},
}  # fmt: skip


@pytest.mark.parametrize("named", NAMED)
def test_no_step_is_compared_with_every_kernel(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is looked at once, whatever its name; comparisons with steps do not grow as steps times kernels."""
    calls = Counter[str]()
    for module, name in ((kernel_families, "kernel_family"), (kernel_families, "may_be")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, real=real, name=name: (calls.update([name]), real(*args))[1])
    prediction = steps(*(f"layer.{place}.fc" for place in range(300)), work=ops.gemm(64, 64, 64))
    observed = [observation(1e-6, **NAMED[named](place)) for place in range(20_000)]
    joined = join(prediction, observed)
    assert calls["kernel_family"] <= len(observed)
    assert calls["may_be"] <= len(observed)
    assert sum(len(pair.observations) for pair in joined.pairs) + len(joined.unmatched_observed) == len(observed)


def test_kernels_of_one_step_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a step with many kernels: grouping them again for every run would take their number squared."""
    grouped = Counter[str]()
    real = measurement._by_kernel
    monkeypatch.setattr(measurement, "_by_kernel", lambda items: (grouped.update("x"), real(items))[1])
    report = reconcile(steps("a", work=amounts(0, 1e6)), [observation(1e-3, "a", kernel="k") for _ in range(2000)])
    assert report.items[0].gap.measurement.runs == 2000
    assert grouped.total() <= 4


SIZES = st.sampled_from([1, 2, 3, 8, 9, 64])
WORKS = st.one_of(
    st.builds(ops.gemm, SIZES, SIZES, SIZES),
    st.builds(ops.softmax, SIZES, SIZES),
    st.builds(ops.gelu, SIZES),
    st.just(amounts(1e9, 1e6)),
)
KERNEL_NAMES = st.sampled_from(["gemm", "softmax", "copy", "reduce_kernel", "splitk", "strange", "gemv"])
SHAPES = st.lists(st.lists(SIZES, min_size=1, max_size=3), max_size=3)


@law(200)
@given(st.lists(WORKS, min_size=1, max_size=6), st.lists(st.tuples(KERNEL_NAMES, SHAPES), min_size=1, max_size=8))
def test_looking_up_shapes_and_sizes_agrees_with_comparing_all_pairs(
    works: list[Work], kernels: list[tuple[str, list[list[int]]]]
) -> None:
    needed = {place: kernel_families.needed_by(work) for place, work in enumerate(works)}
    by_shape = kernel_families.Shapes(needed)
    sizes = kernel_families.Sizes(list(needed.values()))
    for name, shapes in kernels:
        kernel = kernel_families.kernel_of(observation(1e-6, name, settings={"shapes": shapes}))
        fitting = [
            place
            for place, step in needed.items()
            if step.sizes is not None and kernel.sizes is not None and step.sizes <= kernel.sizes
            if kernel_families.may_be(step, kernel)
        ]
        if kernel.sizes is not None:
            assert by_shape.only(kernel) == (fitting[0] if len(fitting) == 1 else None)
        any_family = kernel._replace(family="")
        assert sizes.fit(kernel) == any(kernel_families.may_be(step, any_family) for step in needed.values())


def test_formulas_evaluated_together_give_the_times_of_each_alone() -> None:
    sizes = ((64, 512, 64), (3, 512, 64), (200, 510, 33), (1, 64, 4096), (128, 512, 64))  # of several variants
    works = [ops.gemm(*each) for each in sizes] + [ops.softmax(64, 64 * 5), ops.gelu(4096), ops.gelu(8192)]
    program = Program(tuple(Step(str(place), work) for place, work in enumerate(works)))
    alone, together = predict(program, H200), predict(program, H200)
    evaluate_together(together.expected)
    for one, other in zip(alone.expected, together.expected, strict=True):
        for name in ("time", "low", "high", "distance", "uncovered"):
            assert float(np.asarray(getattr(other, name))) == pytest.approx(
                float(np.asarray(getattr(one, name))), rel=1e-12
            )
        assert other.label == one.label
        assert other.basis == one.basis
        assert [(item.effect, float(np.asarray(item.seconds))) for item in other.items()] == [
            (item.effect, pytest.approx(float(np.asarray(item.seconds)), rel=1e-9, abs=1e-15)) for item in one.items()
        ]


def test_bad_input_has_one_message() -> None:
    with pytest.raises(InputError, match="no observations"):
        reconcile(steps("a"), [])
    sweep = predict(ops.gemm(m=np.array([1.0, 2.0]), n=4, k=4), H200)
    with pytest.raises(InputError, match="a sweep of 2 cases"):
        reconcile(sweep, [observation(1e-6, "gemm")])


# Kernels put together as runs -----------------------------------------------------------------------------------------


def test_several_kernels_of_a_step_add_up() -> None:
    """A product in two kernels: 3 + 1 us, 8 + 2 MB; a count that one of them lacks is not known."""
    work = amounts(1e9, 1e7)
    observed = [
        observation(3e-6, "a", kernel="gemm", bytes={"hbm": 8e6}, flops={"tensor.bf16": 1e9}),
        observation(1e-6, "a", kernel="splitk_reduce", bytes={"hbm": 2e6}),
    ]
    gap = reconcile(predict(replace(work, name="a"), simple()), observed).items[0].gap
    assert gap.measured == pytest.approx(4e-6)
    assert gap.excess_bytes == pytest.approx(1.0)
    assert gap.counts.flops is None
    assert gap.measurement.launches == 2


def test_repeated_kernels_are_runs_where_one_is_the_whole_and_parts_where_it_is_not() -> None:
    whole = [observation(time, "a", kernel="k", bytes={"hbm": 1e7}) for time in (1e-5, 2e-5, 4e-5)]
    parts = [observation(1e-5, "a", kernel="k", bytes={"hbm": 1e7 / 1000}) for _ in range(1000)]
    prediction = predict(amounts(0, 1e7, "a"), simple())
    assert reconcile(prediction, whole).items[0].gap.measured == pytest.approx(2e-5)
    many = reconcile(prediction, parts).items[0].gap
    assert many.measured == pytest.approx(1e-2)
    assert many.measurement.launches == 1000
    assert many.excess_bytes == pytest.approx(1.0)


def test_timings_faster_than_the_floor_are_never_summed() -> None:
    """The step needs 10 us at the roof; ten timings of 4 us are ten runs above the roofline, not one run of 40 us."""
    timed = replace(observation(4e-6, "a"), samples=(4e-6,) * 10)
    gap = reconcile(predict(amounts(0, 1e7, "a"), simple()), [timed]).items[0].gap
    assert gap.measured == pytest.approx(4e-6)
    assert gap.measurement.runs == 10


def test_samples_of_repeated_runs_are_pooled() -> None:
    """Five samples of 1 ms and one of 2 ms under one name: the middle of all six, not of two medians."""
    prediction = predict(amounts(0, 1e8, "a"), simple())
    runs = [replace(observation(1e-3, "a"), samples=(1e-3,) * 5), observation(2e-3, "a")]
    gap = to_document(reconcile(prediction, runs).items[0])
    assert (gap["measured_us"], gap["samples"]) == (pytest.approx(1000), 6)
    kernels = [
        replace(observation(time, "a", kernel=name), samples=(time, time)) for time in (1e-3, 2e-3) for name in "kl"
    ]
    assert reconcile(prediction, kernels).items[0].gap.measurement.samples == pytest.approx((2e-3, 2e-3, 4e-3, 4e-3))


def test_samples_of_one_observation_are_parts_only_where_their_counts_say_so() -> None:
    """The step needs 10 MB and 10 us at the roof. A trace has a thousand kernels of 1 us: by time alone these are runs."""
    prediction = predict(amounts(0, 1e7, "a"), simple())
    parts = replace(observation(1e-6, "a", kernel="k"), samples=(1e-6,) * 999 + (2e-6,))
    many = reconcile(prediction, [parts]).items[0]
    assert (many.gap.measured, many.gap.measurement.runs) == (pytest.approx(1e-6), 1000)
    assert "above the roofline" in many.band
    counted = reconcile(prediction, [replace(parts, bytes={"hbm": 1e4})]).items[0].gap
    assert (counted.measured, counted.measurement.launches) == (pytest.approx(1.001e-3), 1000)
    assert counted.excess_bytes == pytest.approx(1.0)
    runs = replace(parts, samples=(1.1e-5, 1.2e-5, 1.2e-5, 1.4e-5), bytes={"hbm": 1e7})
    complete = reconcile(prediction, [runs]).items[0].gap
    assert (complete.measured, len(complete.measurement.samples), complete.measurement.launches) == (
        pytest.approx(1.2e-5),
        4,
        1,
    )
    twice = predict(Program((Step("a", amounts(0, 1e7), 2.0),)), simple())
    halves = reconcile(twice, [replace(parts, bytes={"hbm": 1e4})]).items[0].gap
    assert halves.measurement.samples == pytest.approx((500e-6, 501e-6))
    assert halves.measurement.launches == 500


@pytest.mark.parametrize(("count", "time"), [(10, 50e-6), (3, 50e-6), (1, 50e-6)])
def test_a_time_is_never_made_of_samples_that_are_too_fast(count: int, time: float) -> None:
    """A copy that needs 125 us at the roof, sampled at 50 us: 50 us above the roofline, however often it was sampled."""
    work = ops.copy(n=1.25e8, dtype="fp32")
    prediction = predict(Program((Step("copy", work),)), H200)
    floor = float(np.asarray(prediction.floor))
    assert floor > 2 * time
    item = reconcile(
        prediction, [replace(observation(time, "copy", kernel="copy_kernel"), samples=(time,) * count)]
    ).items[0]
    assert item.gap.measured == pytest.approx(time)
    assert item.gap.share == pytest.approx(floor / time)
    assert "above the roofline" in item.band


def test_kernels_of_a_range_are_parts_of_its_runs() -> None:
    """A range that ran twice, with 500 kernels of 1 us each time: two runs of 500 us. Without its runs, 1000 runs of 1 us."""
    prediction = predict(amounts(0, 1e7, "train"), simple())
    kernels = replace(observation(1e-6, "aten::add", kernel="k", path=("train",)), samples=(1e-6,) * 1000)
    ranged = reconcile(prediction, [replace(kernels, settings={"range_runs": 2})]).items[0].gap
    assert ranged.how == "nvtx"
    assert ranged.measurement.samples == pytest.approx((500e-6, 500e-6))
    assert reconcile(prediction, [kernels]).items[0].gap.measured == pytest.approx(1e-6)


def test_forward_and_backward_never_mix() -> None:
    """One module, two passes: the kernels of the backward pass belong to no step of the forward pass, whatever their path."""
    observed = [
        observation(2.8e-6, "aten::native_layer_norm", path=("norm",), kernel="layer_norm"),
        observation(9.5e-6, "aten::native_layer_norm_backward", path=("norm",), kernel="layer_norm_grad", settings={"pass": "backward"}),
    ]  # fmt: skip
    forward = reconcile(steps("norm"), observed)
    assert forward.items[0].gap.measured == pytest.approx(2.8e-6)
    assert forward.unmatched["observed"] == ["aten::native_layer_norm_backward"]
    both = reconcile(
        steps("norm", "norm_backward", work=replace(amounts(1e9, 1e6), family="rows", name="layernorm")), observed
    )
    assert [item.gap.measured for item in both.items] == pytest.approx([2.8e-6, 9.5e-6])


def test_doubtful_joins_are_shown_and_count_for_nothing() -> None:
    """A case `softmax` and a kernel `big_softmax_fused`: joined by family, with low confidence, and no hit."""
    work = ops.softmax(rows=4096, cols=4096)
    prediction = predict(Program((Step("softmax", work),)), H200)
    expected = float(np.asarray(prediction.time))
    report = reconcile(prediction, [observation(expected, "kernel", kernel="big_softmax_fused")])
    (item,) = report.items
    assert item.gap.how in ("order", "family")
    assert item.gap.confidence == "low"
    assert item.gap.inside
    assert (report.verdict["inside"], report.verdict["items"], report.verdict["doubtful"]) == (0, 0, 1)
    assert "doubtful" in report.sentence
    assert report.trusted == []


def test_a_step_that_runs_often_is_told_per_run() -> None:
    prediction = predict(Program((Step("a", amounts(0, 1e7), 3.0),)), simple())
    observed = [observation(time, "a", kernel="k", bytes={"hbm": 1e5}) for time in (1e-5, 2e-5, 4e-5)]
    report = reconcile(prediction, observed)
    assert report.items[0].gap.measured == pytest.approx(2e-5)
    assert report.verdict["measured_us"] == pytest.approx(60)
