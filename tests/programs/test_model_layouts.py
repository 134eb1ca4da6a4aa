"""Layouts: devices of degree 1 are the single device, parts sum to the whole, collectives carry what they must, plans that cannot be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_examples import (
    BERT,
    DEEPSEEK,
    FALCON,
    GEMMA,
    GPT_OSS,
    LLAMA_8B,
    MIXTRAL,
    SMALL,
    SMALL_LATENT,
    SMALL_MOE,
)  # fmt: skip

from ridgeline.core.errors import RidgelineError
from ridgeline.programs.models.architecture import Architecture
from ridgeline.programs.models.layout import Layout, bubble, stages
from ridgeline.programs.models.model_op import COMMUNICATION, ModelOp
from ridgeline.programs.models.phase import Formats, Phase, decode, prefill, train
from ridgeline.programs.models.program import device_parameters, step_ops

REPEATED = ("q and kv down", "q down", "kv down", "router")  # products that tensor-parallel devices all compute


def flops(listed: Iterable[ModelOp], leave_out: tuple[str, ...] = ()) -> float:
    """Of the products, those with repeated ones left out."""
    return sum(
        float(np.sum(value * op.count))
        for op in listed
        if not op.name.startswith(leave_out or ("no op",))
        for (unit, *_), value in op.work.counts.items()
        if unit == "matrix"
    )


def sent(listed: Iterable[ModelOp], over: str) -> float:
    return sum(float(np.sum(op.work.bytes_at("link") * op.count)) for op in listed if op.over == over)


def all_devices(architecture: Architecture, phase: Phase, layout: Layout, leave_out: tuple[str, ...] = ()) -> float:
    """Of one device of every stage times the devices of a stage."""
    per_stage = layout.devices // layout.pp
    return per_stage * sum(
        flops(step_ops(architecture, phase, layout=layout, stage=stage), leave_out) for stage in range(layout.pp)
    )


PHASES = (prefill(8, 64), prefill(8, 64, 128), decode(8, 128), train(8, 64), train(8, 64, 2, "full"))


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: f"{phase.kind}-{phase.context}-{phase.recompute}")
@pytest.mark.parametrize("architecture", SMALL, ids=lambda architecture: architecture.name)
def test_devices_together_compute_what_one_does(architecture: Architecture, phase: Phase) -> None:
    """Exact where nothing is repeated: products down to latent vectors and of the router are, and are left out.

    Of devices that split a prompt one has the last token, whose logits are asked for: the head is left out there.
    """
    if phase.kind == "decode" and not architecture.causal:
        return
    degrees = [{"tp": 2}, {"tp": 4, "sequence": True}, {"dp": 2}, {"pp": 2}, {"pp": 3}, {"tp": 2, "pp": 2, "dp": 2}]
    degrees += [] if phase.kind == "decode" else [{"cp": 2}, {"cp": 4, "tp": 2}]
    if any(hasattr(layer.mlp, "topk") for layer in architecture.layers):
        degrees += [{"tp": 4, "ep": 2}, {"tp": 2, "ep": 2}, {"dp": 4, "ep": 4}, {"tp": 2, "dp": 4, "ep": 4}]
    for degree in degrees:
        leave_out = (*REPEATED, "head") if "cp" in degree else REPEATED
        alone = flops(step_ops(architecture, phase), leave_out)
        together = all_devices(architecture, phase, Layout(**degree), leave_out)
        if layer_repeats_keys(architecture, degree.get("tp", 1)):
            assert together > alone
            split = step_ops(architecture, phase, layout=Layout(**degree))
            assert any("times" in note for op in split if op.name == "qkv" for note in op.work.notes)
        else:
            assert together == pytest.approx(alone, rel=1e-9), degree


def layer_repeats_keys(architecture: Architecture, tp: int) -> bool:
    return any(tp > getattr(layer.attention, "kv_heads", tp) for layer in architecture.layers)


def test_degrees_of_one_are_the_single_device() -> None:
    for phase in PHASES:
        for architecture in SMALL:
            if architecture.causal or phase.kind != "decode":
                alone = step_ops(architecture, phase)
                assert step_ops(architecture, phase, layout=Layout(sequence=True)) == alone
                assert step_ops(architecture, phase, layout=Layout(), stage=0) == alone
                assert not [op for op in alone if op.part == COMMUNICATION]


@given(
    st.sampled_from(SMALL), st.sampled_from(PHASES), st.sampled_from((1, 2, 4)), st.sampled_from((1, 2)),
    st.sampled_from((1, 2, 4)), st.booleans(),
)  # fmt: skip
def test_no_device_does_more_than_a_single_one(
    architecture: Architecture, phase: Phase, tp: int, pp: int, dp: int, sequence: bool
) -> None:
    """Arithmetic and memory traffic of the busiest device, collectives aside."""
    if phase.kind == "decode" and not architecture.causal:
        return
    layout = Layout(tp=tp, pp=pp, dp=dp, sequence=sequence)
    alone = step_ops(architecture, phase)
    split = [op for op in step_ops(architecture, phase, layout=layout) if op.part != COMMUNICATION]
    assert flops(split) <= flops(alone) * (1 + 1e-9)
    assert sum(np.sum(op.bytes) for op in split) <= sum(np.sum(op.bytes) for op in alone) * (1 + 1e-9)
    assert device_parameters(split) <= device_parameters(alone)


def test_parameters_of_devices() -> None:
    """Eight devices of Llama-3-8B: matrices, embedding and head are split, the 65 norms of 4096 are repeated."""
    held = device_parameters(step_ops(LLAMA_8B, decode(1, 1), layout=Layout(tp=8)))
    assert held == (8_030_261_248 - 65 * 4096) / 8 + 65 * 4096
    split = [
        device_parameters(step_ops(LLAMA_8B, decode(1, 1), layout=Layout(pp=4), stage=stage)) for stage in range(4)
    ]
    assert sum(split) == 8_030_261_248
    experts = step_ops(DEEPSEEK, decode(32, 1), layout=Layout(dp=32, ep=32))
    assert next(op.weights for op in experts if op.name == "experts") == 8 * 3 * 7168 * 2048


def test_tensor_parallelism_reduces_twice_per_layer() -> None:
    """2 (N-1)/N of rows x hidden x 2 bytes, two times 32 layers and once for the embedding; logits are gathered."""
    rows, size = 4 * 100, 4 * 100 * 4096 * 2
    listed = step_ops(LLAMA_8B, prefill(4, 100), layout=Layout(tp=4))
    assert sent(listed, "tp") == (2 * 32 + 1) * 2 * 3 / 4 * size + 3 / 4 * 4 * 128256 * 2
    split = step_ops(LLAMA_8B, prefill(4, 100), layout=Layout(tp=4, sequence=True))
    assert {op.name for op in split if op.layer == 0 and op.over} == {"all_gather", "reduce_scatter"}
    assert sent([op for op in split if op.layer == 0], "tp") == sent([op for op in listed if op.layer == 0], "tp")
    norms = [next(op for op in ops if op.name == "add and norm").work.shape["rows"] for ops in (listed, split)]
    assert norms == [rows, rows / 4]
    (once,) = [op for op in step_ops(FALCON, prefill(4, 100), layout=Layout(tp=4)) if op.layer == 0 and op.over]
    assert once.count == 4  # attention and MLP of a parallel layer are summed together


def test_experts_beyond_a_tensor_parallel_group_exchange_tokens() -> None:
    """tokens x topk x hidden values to the experts and back, (N-1)/N of them on links."""
    listed = step_ops(DEEPSEEK, decode(256, 100), layout=Layout(dp=8, ep=8))
    assert sent(listed, "ep") == 58 * 2 * 7 / 8 * 32 * 8 * 7168 * 2
    inside = step_ops(DEEPSEEK, decode(256, 100), layout=Layout(tp=8, ep=8))
    assert not sent(inside, "ep")
    narrow = step_ops(DEEPSEEK, decode(256, 100), Formats("fp8_e4m3", "fp8_e4m3"), Layout(dp=8, ep=8))
    assert sent(narrow, "ep") == sent(listed, "ep") * 3 / 4  # tokens travel quantized, results do not


def test_context_parallelism_passes_keys_and_values_round() -> None:
    """cp - 1 times the keys and values of a part of the tokens; decoding reads a part of the cache and sums results."""
    listed = step_ops(LLAMA_8B, prefill(1, 4096), layout=Layout(cp=4))
    assert sent(listed, "cp") == 32 * 3 * 1024 * 2 * 8 * 128 * 2
    gathered = step_ops(LLAMA_8B, prefill(1, 4096), layout=Layout(cp=4, ring=False))
    assert sent(gathered, "cp") == sent(listed, "cp")
    training = [
        sent(step_ops(LLAMA_8B, train(1, 4096), layout=Layout(cp=4, ring=ring)), "cp") for ring in (True, False)
    ]
    assert training == [3 * sent(listed, "cp")] * 2  # forward, and back with their gradients
    alone, split = (
        next(op for op in step_ops(LLAMA_8B, decode(2, 4095), layout=Layout(cp=cp)) if op.name == "attention")
        for cp in (1, 4)
    )
    assert split.work.moves["main", "K", "read"] * 4 == alone.work.moves["main", "K", "read"]


def test_pipelines() -> None:
    """Stages of consecutive layers; the busiest has the head; what is sent on is the hidden state."""
    counts = [sum(layer.count for _, layer in stage) for stage in stages(DEEPSEEK, 4)]
    assert counts == [16, 15, 15, 15]
    assert [place for place, _ in stages(DEEPSEEK, 4)[0]] == [0, 1]
    layout = Layout(pp=4)
    assert step_ops(LLAMA_8B, decode(8, 100), layout=layout) == step_ops(
        LLAMA_8B, decode(8, 100), layout=layout, stage=3
    )
    first = step_ops(LLAMA_8B, decode(8, 100), layout=layout, stage=0)
    assert sent(first, "pp") == 8 * 4096 * 2
    both = step_ops(LLAMA_8B, train(8, 16, 4), layout=layout, stage=1)
    assert sent(both, "pp") == 4 * 2 * (2 * 16) * 4096 * 2  # forward and back, four microbatches of two sequences
    assert bubble(4, 8) == 3 / 11
    assert bubble(1, 8) == 0
    assert bubble(4, 8, interleaved=2) == 3 / 19


def test_gradients_are_exchanged_by_stage_of_sharding() -> None:
    """With P parameters and N devices: 2 (N-1)/N P w all reduced; the same in two halves; three halves with sharded weights."""
    size = 2 * 8_030_261_248 * 7 / 8
    for shard, times in ((0, 2), (1, 2), (2, 2), (3, 3)):
        listed = step_ops(LLAMA_8B, train(8, 16), layout=Layout(dp=8, shard=shard))
        assert sent(listed, "dp") == pytest.approx(times * size, rel=1e-12), shard
        (update,) = [op for op in listed if op.name == "adamw"]
        assert update.work.shape["n"] == 8_030_261_248 / (8 if shard else 1)
    again = {shard: step_ops(LLAMA_8B, train(16, 16, 2), layout=Layout(dp=8, shard=shard)) for shard in range(4)}
    assert [round(sent(again[shard], "dp") / size, 9) for shard in range(4)] == [2, 2, 3, 6]
    experts = step_ops(MIXTRAL, train(8, 16), layout=Layout(dp=8, ep=8))
    assert not [op for op in experts if op.name == "all_reduce gradients of experts"]  # every device has its own
    split = step_ops(LLAMA_8B, train(8, 16), layout=Layout(cp=8))
    assert sent(split, "dp") == pytest.approx(2 * size, rel=1e-12)


@pytest.mark.parametrize(
    ("architecture", "layout", "message"),
    [
        (LLAMA_8B, {"tp": 3}, "32 attention heads cannot be split over tp=3; tp can be 1, 2, 4, 8, 16, 32"),
        (replace(GEMMA, layers=(replace(GEMMA.layers[0], attention=replace(GEMMA.layers[0].attention, heads=12, kv_heads=6)),)), {"tp": 4}, "6 key heads can be neither split over tp=4 nor repeated"),
        (LLAMA_8B, {"pp": 33}, "llama-3-8b has 32 layers, fewer than pp=33 stages; pp can be at most 32"),
        (LLAMA_8B, {"dp": 2, "ep": 2}, "llama-3-8b has no experts to split over ep=2; ep must be 1"),
        (LLAMA_8B, {"ep": 2}, "llama-3-8b has no experts to split over ep=2; ep must be 1"),
        (MIXTRAL, {"dp": 3, "ep": 3}, "8 experts cannot be split over ep=3; ep can be 1, 2, 4, 8"),
        (MIXTRAL, {"tp": 2, "dp": 2, "ep": 3}, "ep=3 does not fit tp=2 dp=2"),
        (LLAMA_8B, {"shard": 3}, "shard=3 splits what training keeps; a decode step has shard=0"),
    ],
)  # fmt: skip
def test_plans_that_cannot_be_say_why_and_what_would(
    architecture: Architecture, layout: dict[str, int], message: str
) -> None:
    with pytest.raises(RidgelineError, match=message):
        step_ops(architecture, decode(1, 1), layout=Layout(**layout))


def test_degrees_are_whole_numbers() -> None:
    for wrong in ({"tp": 0}, {"dp": 1.5}, {"pp": True}, {"shard": 4}):
        with pytest.raises(RidgelineError, match="must be"):
            Layout(**wrong)  # type: ignore[arg-type]
    with pytest.raises(RidgelineError, match="batch 12 does not divide over dp=8 x 1 microbatches; multiples of 8 do"):
        step_ops(BERT, train(12, 8), layout=Layout(dp=8))


def test_a_thousand_batches_of_a_layout_are_one_call() -> None:
    batches = np.arange(1, 1001)
    for architecture in (SMALL_MOE, SMALL_LATENT, GPT_OSS, GEMMA):
        listed = step_ops(architecture, decode(batches, 100.0), layout=Layout(tp=2, dp=2))
        assert {np.shape(op.bytes) for op in listed} == {(1000,)}
        assert all(np.all(np.diff(op.bytes) >= 0) for op in listed)
