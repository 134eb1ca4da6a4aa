"""Program moves: each fault planted in a timeline is named with its evidence and priced; its fixed twin is silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from timelines import MICRO, Story, call, repeated, tensor

from ridgeline.core.timeline import BACKWARD, COLLECTIVE, COPY, FORWARD, OPTIMIZER, Activity, Call, Site, Tensor
from ridgeline.gaps.steps.moved import copied_work
from ridgeline.gaps.steps.moves import SHOWN, Move
from ridgeline.gaps.steps.report import ProgramReport, program_report
from ridgeline.machines.load import load
from ridgeline.prediction.flat import efficiency
from ridgeline.prediction.predict import predict
from ridgeline.programs import ops
from ridgeline.programs.aten import count

H200 = load("h200-sxm")
BIG = tensor(4096, 4096)  # 32 MB in bf16
MM = call("aten::mm", BIG, BIG)
PRODUCT_TIME = 190.0
GRADIENTS = tuple(tensor(1024, 1024, dtype="fp32") for _ in range(20))
Step = Callable[[Story], Any]


def time_of(work: Any) -> float:
    """Expected microseconds."""
    return float(np.asarray(predict(work, H200).time)) / MICRO


def report(step: Step, **parts: Any) -> ProgramReport:
    return program_report(repeated(step, **parts), H200)


def move(step: Step, rule: str, **parts: Any) -> Move | None:
    """The move of a rule, which is shown, with evidence, and worth at most the step."""
    made = report(step, **parts)
    moves = [each for each in made.moves if each.rule == rule]
    for each in moves:
        assert each.evidence
        assert each.gain is not None
        assert 0 < each.gain <= made.view.wall
        if each.device is not None:
            assert each.device <= made.view.device + 1e-9
    return moves[0] if moves else None


def products(story: Story, count: int = 10) -> Story:
    for _ in range(count):
        story.launch(MM, PRODUCT_TIME)
    return story


def test_a_synchronisation_is_named_with_its_line_and_the_idle_time_it_causes() -> None:
    """The host works 200 us after it has read the loss: the device idles as long, and 10 us for the first launch."""
    planted = move(lambda story: products(story).wait("aten::item", "train.py:31").work(200.0), "synchronisation")
    assert planted is not None
    assert planted.status == SHOWN
    assert "aten::item at train.py:31" in planted.cause
    assert planted.sources == ("train.py:31",)
    assert planted.gain == pytest.approx(210 * MICRO, rel=0.1)
    assert move(lambda story: products(story).work(200.0), "synchronisation") is None


def test_a_train_of_short_kernels_is_host_bound_and_a_graph_leaves_the_device_time() -> None:
    """100 kernels of 3 us launched every 10 us: a graph takes 300 us where the step takes 1000 us."""

    def train(story: Story, time: float = 3.0) -> None:
        for _ in range(100):
            story.launch(call("aten::relu", tensor(1024)), time)

    planted = move(train, "launch train")
    assert planted is not None
    assert planted.gain == pytest.approx(700 * MICRO, rel=0.05)
    assert report(train).view.regime == "host-bound"
    assert "torch.compile" in planted.move
    jax_moves = program_report(replace(repeated(train), tool="jax.profiler"), H200).moves
    assert next(each.move for each in jax_moves if each.rule == "launch train").startswith(
        "compile the entire step with jax.jit"
    )
    assert move(lambda story: train(story, 30.0), "launch train") is None


def test_a_data_loader_stall_is_priced_by_what_the_device_waits() -> None:
    planted = move(lambda story: products(story.pause(3000.0)), "data loader")
    assert planted is not None
    assert planted.gain == pytest.approx((3000 + 100 - 1900) * MICRO, rel=0.1)
    assert move(lambda story: products(story.pause(300.0)), "data loader") is None


def loop_optimizer(story: Story) -> None:
    """Five elementwise kernels for each of twenty tensors."""
    products(story, 4)
    for each in GRADIENTS:
        for name in ("mul_", "lerp_", "addcmul_", "sqrt", "addcdiv_"):
            operands = (each,) * (3 if name.startswith("addc") else 1)
            story.launch(Site(Call(f"aten::{name}", operands), OPTIMIZER), 6.0)


def fused_optimizer(story: Story) -> None:
    products(story, 4)
    update = Site(Call("aten::_fused_adamw_", ((), (), (), (), (), ())), OPTIMIZER)
    kernel = "multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"
    story.launch(update, time_of(ops.adamw(n=20 * 1024 * 1024)), kernel=kernel)


def test_a_loop_over_tensors_is_priced_against_a_fused_optimizer() -> None:
    planted = move(loop_optimizer, "optimizer", gradients=GRADIENTS)
    assert planted is not None
    assert planted.device is not None
    fused = time_of(ops.adamw(n=20 * 1024 * 1024))
    assert planted.device == pytest.approx((100 * 6.0 - fused) * MICRO, rel=0.02)
    assert "fused=True" in planted.move
    assert move(fused_optimizer, "optimizer", gradients=GRADIENTS) is None


def chain(story: Story) -> None:
    """mul, add and gelu on 32 MB each, one after the other: 36 us, 28 us ... each at the bandwidth."""
    for name, *args in (("mul", BIG, 2.0), ("add", BIG, BIG, 1), ("gelu", BIG)):
        story.launch(call(f"aten::{name}", *args), 30.0)
    story.launch(MM, PRODUCT_TIME)


def test_elementwise_neighbours_on_equal_sizes_are_fused_at_the_expected_time_of_one_kernel() -> None:
    """Three kernels move 2 + 3 + 2 tensors; the fused one reads two and writes one (4 tensors are spared)."""
    planted = move(chain, "pointwise chain")
    assert planted is not None
    assert planted.device is not None
    fused = time_of(ops.add(n=4096 * 4096))
    assert planted.device == pytest.approx((90 - fused) * MICRO, rel=0.1)
    assert "134 MB" in planted.evidence[1]
    alternating = lambda story: [story.launch(call("aten::gelu", BIG), 30.0).launch(MM, PRODUCT_TIME) for _ in range(3)]  # noqa: E731
    assert move(alternating, "pointwise chain") is None


def test_a_norm_in_small_steps_is_one_chain() -> None:
    """x^2, its mean by rows, an epsilon, the root and two products: four kernels on all elements, two on one per row."""
    rows = tensor(4096, 1)

    def norm(story: Story) -> None:
        for name, *args in (
            ("pow", BIG, 2),
            ("mean", BIG, (-1,), True),
            ("add", rows, 1e-6, 1),
            ("rsqrt", rows),
            ("mul", BIG, rows),
            ("mul", BIG, tensor(4096)),
        ):
            story.launch(call(f"aten::{name}", *args), 25.0 if args[0] is BIG else 2.0)
        story.launch(MM, PRODUCT_TIME)

    planted = move(norm, "pointwise chain")
    assert planted is not None
    assert "1 chain" in planted.evidence[0]
    assert "pow + mean + add + rsqrt" in planted.evidence[0]
    assert planted.device is not None
    assert 40 * MICRO < planted.device < 104 * MICRO


def test_casts_of_parameters_in_every_step() -> None:
    weight = tensor(4096, 4096, dtype="fp32")

    def cast(story: Story, source: Tensor) -> None:
        story.launch(call("aten::copy_", tensor(*source.shape), source, False), 60.0)
        products(story, 4)

    planted = move(lambda story: cast(story, weight), "weight casts", gradients=(weight,))
    assert planted is not None
    assert planted.device == pytest.approx(60 * MICRO)
    assert move(lambda story: cast(story, tensor(64, 4096, dtype="fp32")), "weight casts", gradients=(weight,)) is None


def test_channels_last_also_brings_what_other_operators_on_images_gain() -> None:
    """Batch norm takes twice its NCHW time, so that it keeps that slowdown in the other layout; the conversion goes."""
    shape = (64, 256, 56, 56)
    nchw, nhwc = (256 * 56 * 56, 56 * 56, 56, 1), (256 * 56 * 56, 1, 56 * 256, 256)

    def norm(strides: tuple[int, ...]) -> Call:
        channels = tensor(256, dtype="fp32")
        return call("aten::cudnn_batch_norm", Tensor(shape, "fp32", strides), channels, channels, channels, channels, True, 0.1, 1e-5)  # fmt: skip

    plain, last = (time_of(count(norm(strides)).work) for strides in (nchw, nhwc))
    assert last < 0.97 * plain

    def step(story: Story, strides: tuple[int, ...]) -> None:
        story.launch(call("aten::convolution"), 40.0, kernel="nchwToNhwcKernel", name="nchwToNhwcKernel")
        story.launch(norm(strides), 2 * plain)

    planted = move(lambda story: step(story, nchw), "layout")
    assert planted is not None
    assert planted.device == pytest.approx((40.0 + 2 * (plain - last)) * MICRO, rel=0.02)
    converted = move(lambda story: step(story, nhwc), "layout")
    assert converted is not None
    assert converted.device == pytest.approx(40.0 * MICRO, rel=0.02)


def test_autocast_is_priced_with_its_casts_on_the_host_and_the_activations_between_products() -> None:
    """tf32 products and a relu on the vector units: bf16 halves the relu, and two more launches go before each product."""
    big = tensor(4096, 4096, dtype="fp32")
    kernel = "cutlass_80_tensorop_s1688gemm_128x256_tf32"
    slow, fast = (time_of(ops.relu(n=4096 * 4096, dtype=name)) for name in ("fp32", "bf16"))

    bf16, tf32 = (time_of(ops.gemm(m=4096, n=4096, k=4096, dtype=name)) for name in ("bf16", "tf32"))

    def step(story: Story, cost: float) -> None:
        for _ in range(4):
            story.launch(call("aten::mm", big, big), tf32, kernel=kernel, cost=cost)
            story.launch(call("aten::relu", big), slow, cost=cost)

    device = move(lambda story: step(story, 10.0), "tf32 products")
    assert device is not None
    assert device.device == pytest.approx(4 * (tf32 - bf16 + slow - fast) * MICRO, rel=0.05)
    assert device.gain == pytest.approx(device.device, rel=0.05)
    assert move(lambda story: step(story, 0.5 * (tf32 + slow)), "tf32 products") is None  # the host would be the limit


def test_fp64_operators_in_a_model_of_fp32_are_named() -> None:
    """A sum that a NumPy constant made fp64 moves twice the bytes; parameters in fp64 are meant to be so."""
    wide = Tensor((1 << 24,), "fp64")
    slow, fast = (time_of(ops.add(n=1 << 24, dtype=name)) for name in ("fp64", "fp32"))

    def step(story: Story) -> None:
        products(story, 2).launch(Site(Call("aten::add", (wide, wide, 1)), FORWARD, source="train.py:7"), slow)

    planted = move(step, "accidental fp64", gradients=GRADIENTS)
    assert planted is not None
    assert planted.device == pytest.approx((slow - fast) * MICRO, rel=0.02)
    assert "parameters are fp32" in planted.evidence[0]
    assert planted.sources == ("train.py:7",)
    assert move(step, "accidental fp64", gradients=(wide,)) is None


@pytest.mark.parametrize(
    ("strides", "after", "status"),
    [((1, 4096), "aten::mm", "shown"), ((8192, 2), "aten::mm", "possible"), ((1, 4096), "aten::relu", "possible")],
)
def test_a_copy_of_a_transposed_matrix_is_needless_before_a_product(strides: Any, after: str, status: str) -> None:
    source, made = Tensor((4096, 4096), "bf16", strides), Tensor((4096, 4096), "bf16", (4096, 1))
    copy = Site(call("aten::copy_", made, source), FORWARD, outer=(call("aten::contiguous", source),))

    def step(story: Story) -> None:
        story.launch(copy, 100.0)
        story.launch(call(after, made, made) if after == "aten::mm" else call(after, made), 250.0)

    planted = move(step, "contiguous")
    assert planted is not None
    assert planted.status == status


def test_layout_conversions_of_the_library() -> None:
    image, weight = tensor(64, 256, 56, 56), tensor(256, 256, 1, 1)
    convolve = call("aten::cudnn_convolution", image, weight, (0, 0), (1, 1), (1, 1), 1, False, False, True)

    def step(story: Story, conversions: bool) -> None:
        if conversions:
            story.launch(convolve, 80.0, kernel="void cudnn::ops::nchwToNhwcKernel<half>", name="nchwToNhwcKernel")
        story.launch(convolve, 150.0, kernel="sm90_xmma_fprop_nhwc")

    planted = move(lambda story: step(story, True), "layout")
    assert planted is not None
    assert planted.device == pytest.approx(80 * MICRO)
    assert "channels_last" in planted.move
    assert move(lambda story: step(story, False), "layout") is None


def test_fp32_products_are_priced_in_tf32_and_never_below_their_expected_time() -> None:
    wide = tensor(4096, 4096, dtype="fp32")
    product = call("aten::mm", wide, wide)
    slow = lambda story: story.launch(product, 2900.0, kernel="ampere_sgemm_128x64_nn")  # noqa: E731
    planted = move(slow, "fp32 products")
    assert planted is not None
    assert planted.device is not None
    tf32 = time_of(ops.gemm(m=4096, n=4096, k=4096, dtype="tf32"))
    assert planted.device == pytest.approx((2900 - tf32) * MICRO, rel=0.03)
    fast = lambda story: story.launch(product, tf32, kernel="sm90_xmma_gemm_f32f32_tf32f32_f32")  # noqa: E731
    assert move(fast, "fp32 products") is None
    narrower = move(fast, "tf32 products")
    assert narrower is not None
    assert narrower.device is not None
    bf16 = time_of(ops.gemm(m=4096, n=4096, k=4096))
    assert narrower.device == pytest.approx((tf32 - bf16) * MICRO, rel=0.05)
    assert move(lambda story: products(story), "tf32 products") is None


def test_attention_through_memory_is_priced_against_a_fused_one() -> None:
    """64 heads of 2048 x 2048 scores: 268 M scores, 0.5 GB in bf16, written and read several times."""
    q, scores, keys = tensor(64, 2048, 128), tensor(64, 2048, 2048), tensor(64, 128, 2048)

    def legacy(story: Story) -> None:
        story.launch(call("aten::bmm", q, keys), 300.0)
        story.launch(call("aten::div", scores, 8.0), 300.0)
        story.launch(call("aten::_softmax", scores, -1, False), 300.0)
        story.launch(call("aten::bmm", scores, tensor(64, 2048, 128)), 300.0)

    planted = move(legacy, "attention")
    assert planted is not None
    assert planted.device is not None
    fused = time_of(ops.attention(batch=1, heads=64, seq_q=2048, head_dim=128))
    assert planted.device == pytest.approx((1200 - fused) * MICRO, rel=0.02)

    def flash(story: Story) -> None:
        heads = tensor(1, 64, 2048, 128)
        story.launch(call("aten::_scaled_dot_product_flash_attention", heads, heads, heads, 0.0, False, False), fused)

    assert move(flash, "attention") is None


def reduced(story: Story, stream: int) -> None:
    """Ten products, and an all-reduce of 1 ms on a stream of its own or after them."""
    products(story, 5)
    story.launch(
        None, 1000.0, kind=COLLECTIVE, name="all_reduce", stream=stream, ranks=8, dtype="bf16", elements_in=1 << 25
    )
    products(story, 5)


def test_communication_that_nothing_covers() -> None:
    planted = move(lambda story: reduced(story, 7), "communication")
    assert planted is not None
    assert planted.gain == pytest.approx(1000 * MICRO, rel=0.1)
    assert move(lambda story: reduced(story, 20), "communication") is None


def copied(story: Story, kind: str, time: float) -> None:
    story.launch(call("aten::copy_", BIG, BIG, False), time, kind=COPY, name="memcpy HtoD", kernel=f"Memcpy HtoD ({kind} -> Device)", bytes=32 << 20)  # fmt: skip
    products(story, 4)


def test_pageable_copies_are_priced_at_the_rate_of_the_link() -> None:
    link = H200.link("pcie").per_direction.value()
    assert link is not None
    pinned = (32 << 20) / link / MICRO
    planted = move(lambda story: copied(story, "Pageable", 4000.0), "pageable copies")
    assert planted is not None
    assert planted.gain == pytest.approx((4000 - pinned) * MICRO, rel=0.05)
    assert move(lambda story: copied(story, "Pinned", pinned), "pageable copies") is None


@pytest.mark.parametrize(
    ("way", "ends", "size", "measured"),
    [
        ("HtoD", "Pageable -> Device", 37_748_736, 5301.3), ("HtoD", "Pageable -> Device", 1 << 20, 21.9),
        ("DtoH", "Device -> Pageable", 37_748_736, 3061.5), ("DtoH", "Device -> Pageable", 1 << 18, 7.0),
    ],
)  # fmt: skip
def test_a_pageable_copy_is_expected_to_take_longer(way: str, ends: str, size: int, measured: float) -> None:
    """As measured on an H200, in microseconds."""
    ran = Activity(COPY, f"memcpy {way}", f"Memcpy {way} ({ends})", settings={"bytes": size})
    (staged, _), (pinned, _) = copied_work(ran, H200), copied_work(ran, H200, pinned=True)
    assert staged is not None
    assert pinned is not None
    assert staged.moves == pinned.moves
    assert time_of(staged) == pytest.approx(measured, rel=0.15)
    assert (time_of(staged) > 4 * time_of(pinned)) == (size > 1 << 20)
    t4 = load("t4")  # without a figure of its own: assumed, and said
    bound = predict(staged, t4).bounds[0]
    name = next(iter(bound.terms))
    assert "assumed for pageable" in efficiency(bound, name).why
    assert efficiency(bound, name).value <= 1.0


def eager_update(story: Story, program: str) -> None:
    """Gradients by one program of JAX, then an update of 20 tensors by five operations each."""
    story.launch(Site(MM, BACKWARD, ("jit(loss)",)), 190.0)
    for _ in range(20):
        for name in ("multiply", "multiply", "add", "sqrt", "divide"):
            weights = tensor(1024, 1024, dtype="fp32")
            made = Call(f"wrapped_{name}", (weights, weights))
            story.launch(Site(made, OPTIMIZER, (program,), outer=(Call(f"wrapped_{name}"),), fused=(name,)), 5.0)


def test_an_update_that_jax_runs_operation_by_operation_is_compiled() -> None:
    planted = move(lambda story: eager_update(story, "jit(add)"), "optimizer", tool="jax.profiler")
    assert planted is not None
    assert planted.move.startswith("compile the update with the step (jax.jit")
    assert "100 launches" in planted.evidence[0]
    assert "21 M parameters; a fused AdamW" in planted.evidence[1]  # 20 tensors, each with one square root
    assert (
        move(lambda story: eager_update(story, "jit(loss)"), "optimizer", tool="jax.profiler") is None
    )  # it is compiled


def test_pinned_copies_that_no_kernel_covers() -> None:
    """600 us of copying before the first kernel, or on a stream of its own while kernels run."""

    def step(story: Story, stream: int) -> None:
        pinned = (32 << 20, "Memcpy HtoD (Pinned -> Device)")
        products(story, 5)
        story.launch(call("aten::copy_", BIG, BIG, True), 600.0, kind=COPY, name="memcpy HtoD", kernel=pinned[1], bytes=pinned[0], stream=stream)  # fmt: skip
        products(story, 5)

    planted = move(lambda story: step(story, 7), "exposed copies")
    assert planted is not None
    assert planted.gain == pytest.approx(600 * MICRO, rel=0.05)
    assert move(lambda story: step(story, 20), "exposed copies") is None


def test_a_slow_operator_is_possible_and_names_what_would_decide() -> None:
    def step(story: Story, time: float) -> None:
        story.launch(MM, time)
        products(story, 2)

    made = report(lambda story: step(story, 10 * PRODUCT_TIME))
    slow = [each for each in made.moves if each.rule == "slower than expected"]
    assert slow == [] or all(each.status == "possible" for each in slow)
    alone = move(lambda story: story.launch(MM, 10 * PRODUCT_TIME), "slower than expected")
    assert alone is not None
    assert "ncu" in alone.move
    assert move(lambda story: products(story), "slower than expected") is None


def test_an_operator_that_kept_to_its_interval_in_one_step_is_not_blamed() -> None:
    """Another program took the cores in the other steps."""
    times = cycle((10 * PRODUCT_TIME, 10 * PRODUCT_TIME, PRODUCT_TIME))
    assert move(lambda story: story.launch(MM, next(times)), "slower than expected") is None


def test_moves_come_by_gain_and_shown_ones_first() -> None:
    def both(story: Story) -> None:
        chain(story)
        products(story).wait().work(500.0)
        story.launch(Site(MM, BACKWARD), 10 * PRODUCT_TIME)

    made = report(both)
    ranks = [(each.status != SHOWN, -(each.gain or 0.0)) for each in made.moves]
    assert ranks == sorted(ranks)
    assert len(made.moves) >= 3
    assert made.items[0].group.phase == FORWARD


def test_a_named_cause_comes_before_a_graph() -> None:
    """A loop over tensors is launched one by one: a graph would hide that, a fused optimizer ends it."""

    def loop(story: Story) -> None:
        for each in GRADIENTS:
            for name in ("mul_", "addcmul_", "addcdiv_"):
                operands = (each,) * (3 if name.startswith("addc") else 1)
                story.launch(Site(Call(f"aten::{name}", operands), OPTIMIZER), 5.0, cost=30.0)

    made = report(loop, gradients=GRADIENTS)
    assert made.view.regime == "host-bound"
    assert [each.rule for each in made.moves][:2] == ["optimizer", "launch train"]


def test_no_move_saves_more_than_idle_and_removed_device_time() -> None:
    made = report(lambda story: products(story).wait().work(200.0))
    for each in made.moves:
        assert (each.gain or 0.0) <= made.view.idle + (each.device or 0.0) + 1e-12


def test_a_good_program_gets_no_move() -> None:
    assert report(lambda story: products(story)).moves == ()


def test_updates_by_index_are_contended_where_few_places_take_many() -> None:
    """4 M numbers are read in about 18 us; to 16 places they took 461 us on an H200."""
    index, values = tensor(1 << 22, dtype="int64"), tensor(1 << 22, dtype="fp32")

    def step(places: int, time: float) -> Callable[[Story], None]:
        return lambda story: story.launch(
            call("aten::scatter_add_", tensor(places, dtype="fp32"), 0, index, values), time
        )

    planted = move(step(16, 461.0), "contended scatter")
    assert planted is not None
    assert planted.device == pytest.approx(443 * MICRO, rel=0.02)
    assert move(step(1 << 20, 461.0), "contended scatter") is None
    assert move(step(16, 40.0), "contended scatter") is None
