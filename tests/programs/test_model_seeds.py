"""Worked examples as steps of models: a block of GPT-2, shapes of training, prefill and decoding, data parallelism, drafts, memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from model_examples import DEEPSEEK, GPT2, LLAMA_8B, MIXTRAL

import ridgeline as rl
from ridgeline.core.errors import RidgelineError
from ridgeline.core.work import work
from ridgeline.programs.models.activations import inference_activations, kept_per_layer, training_activations
from ridgeline.programs.models.architecture import Architecture, Attention, Layer, Mlp
from ridgeline.programs.models.device import Device
from ridgeline.programs.models.layout import Layout
from ridgeline.programs.models.model_op import ModelOp
from ridgeline.programs.models.parallel import gradient_intensity, most_data_parallel
from ridgeline.programs.models.phase import Formats, Phase, decode, prefill, train
from ridgeline.programs.models.program import step_ops
from ridgeline.programs.models.speculative import expected_tokens, speculative_ops

# 32 sequences of 1024 tokens, 768 wide, 12 heads, no mask, no biases
BLOCK = Architecture(
    "block", 768, 50257, (Layer(Attention(12, 12, 64, rotary=False), Mlp(3072, False, activation="gelu")),),
    norm="layernorm", causal=False,
)  # fmt: skip
LLAMA_2_7B = Architecture("llama-2-7b", 4096, 32000, (Layer(Attention(32, 32, 128), Mlp(11008), count=32),))


def by_name(architecture: Architecture, phase: Phase, fused: bool = True) -> dict[str, ModelOp]:
    return {op.name: op for op in step_ops(architecture, phase, Formats("fp16", "fp16", "fp16"), fused=fused)}


def matrix(op: ModelOp) -> float:
    return sum(float(value) for (engine, *_), value in op.work.counts.items() if engine == "matrix")


def test_block_of_a_transformer() -> None:
    """S0-95 (E-53): GFLOP 115.96, 103.08, 38.65, 0.40, 309.24; AI 566.1, 512.0, 379.6, 2.0.

    Both products of the FFN have AI 603 over 0.513 GB; with the intermediate counted once, as the example does, 993.
    """
    ops = by_name(BLOCK, prefill(32, 1024), fused=False)
    qkv = by_name(BLOCK, prefill(32, 1024))["qkv"]
    rows = {
        "qkv": (qkv, 115.96, 566.1),
        "attention": (ops["attention"], 103.08, 512.0),
        "out": (ops["out"], 38.65, 379.6),
    }
    for name, (op, flops, intensity) in rows.items():
        assert matrix(op) / 1e9 == pytest.approx(flops, rel=1e-3), name
        assert matrix(op) / float(op.work.bytes) == pytest.approx(intensity, abs=0.051), name
    norm = ops["norm"]
    assert norm.count == 2
    assert norm.flops / 1e9 == pytest.approx(0.40, rel=0.01)
    assert norm.work.intensity() == pytest.approx(2.0, rel=1e-3)
    flops = matrix(ops["up"]) + matrix(ops["down"])
    moved = float(ops["up"].work.bytes + ops["down"].work.bytes)
    assert flops / 1e9 == pytest.approx(309.24, rel=1e-4)
    assert (moved / 1e9, flops / moved) == (pytest.approx(0.513, abs=5e-4), pytest.approx(603, abs=0.5))
    assert flops / (moved - 32 * 1024 * 3072 * 2) == pytest.approx(993.0, abs=0.05)
    assert {op: ops[op].work.intensity() < 153 for op in ("norm", "activation")} == {"norm": True, "activation": True}


def test_total_of_a_transformer_block() -> None:
    """S0-95 (E-53): activations of 15 FLOP a value over four passes have AI 1.9, and with the intermediate of the FFN counted once the
    block is 568.8 GFLOP over 1.826 GB, AI 311.5.

    That is the sum of the example's own expressions. Kernel by kernel the intermediate is written and read back, GELU reads and writes it
    once (12 FLOP a value, AI 3.0) and two residuals move three tensors each; in values of N = 32 x 1024 x 768 and H = 768:
    4 N + 3 H^2 (QKV), 4 N, 2 N + H^2, 2 (2 N + 2 H) of the norms, 10 N + 8 H^2, 8 N, 6 N.
    """
    ops = by_name(BLOCK, prefill(32, 1024), fused=False)
    ops["qkv"] = by_name(BLOCK, prefill(32, 1024))["qkv"]
    tokens, hidden, inter = 32 * 1024, 768, 3072
    seen = work(vector={"activations": (15 * tokens * inter, "15 n")}, read={"x": (2 * tokens * inter, "fp16", "2 n")},
                write={"y": (2 * tokens * inter, "fp16", "2 n")}, dtype="fp16")  # fmt: skip
    assert seen.intensity() == 1.875
    products = [ops[name] for name in ("qkv", "attention", "out", "up", "down")]
    norm = ops["norm"]
    flops = sum(matrix(op) for op in products) + norm.flops + float(seen.flops)
    moved = sum(float(op.work.bytes) for op in products) + 2 * float(norm.work.bytes) + float(seen.bytes)
    once = moved - tokens * inter * 2
    assert (flops / 1e9, once / 1e9) == (pytest.approx(568.848, abs=1e-3), pytest.approx(1.8261, abs=1e-4))
    assert flops / once == pytest.approx(311.5, abs=0.05)

    kernels = [*products, norm, norm, ops["activation"], ops["residual"], ops["residual"]]
    values = 38 * tokens * hidden + 12 * hidden**2 + 4 * hidden
    assert sum(float(op.work.bytes) for op in kernels) == 2 * values
    assert ops["activation"].work.intensity() == 3.0
    assert ops["residual"].work.intensity() == pytest.approx(1 / 6)


def test_attention_of_a_layer_in_parts() -> None:
    """S0-68 to 71: 96 heads of 128 over 2048 tokens. Flash 1034 FLOP/B, 4136 at 8192 tokens, and no term that grows with the square;
    materialised scores 60.8 in four passes and 114.9 in two, and QK^T alone 113.8, below D = 128 at any length (E-44, E-45)."""
    wide = Architecture("wide", 12288, 1000, (Layer(Attention(96, 96, 128, rotary=False), Mlp(49152, False)),), causal=False)  # fmt: skip
    for tokens, intensity in ((2048, 1034), (8192, 4136)):
        op = by_name(wide, prefill(1, tokens))["attention"]
        assert op.work.intensity() == pytest.approx(intensity, rel=1e-3)
        assert op.work.bytes == 4 * 96 * tokens * 128 * 2
    for passes, intensity in ((2, 114.9), (4, 60.8)):
        work = rl.ops.attention(1, 96, 2048, 128, variant="standard", score_passes=passes, dtype="fp16")
        assert work.intensity() == pytest.approx(intensity, rel=1e-3)
    for tokens, intensity in ((2048, 113.8), (1 << 20, 128)):
        scores = rl.ops.gemm(tokens, tokens, 128, dtype="fp16").intensity()
        assert scores == pytest.approx(intensity, rel=1e-3)
        assert scores < 128


def test_shapes_of_training_prefill_and_decoding() -> None:
    """S2-12 AI 3584; S2-14 AI 0.99984; S3-18 17.18 GFLOP, 41.9 MB, AI 409.6; S3-19 33.6 MFLOP, 33.6 MB, AI 1.0; S3-22 AI 31.5."""
    large = Architecture("large", 8192, 1000, (Layer(Attention(64, 64, 128), Mlp(28672, False)),))
    assert by_name(large, train(1, 8192))["up"].work.intensity() == pytest.approx(3584)
    assert by_name(large, decode(1, 4096))["up"].work.intensity() == pytest.approx(0.99984, rel=1e-5)
    out = by_name(LLAMA_2_7B, prefill(1, 512))["out"].work
    assert (out.flops, out.bytes) == (2 * 512 * 4096**2, pytest.approx(41.9e6, abs=5e4))
    assert out.intensity() == pytest.approx(409.6)
    out = by_name(LLAMA_2_7B, decode(1, 512))["out"].work
    assert (out.flops, out.bytes) == (pytest.approx(3.36e7, abs=5e4), pytest.approx(33.6e6, abs=5e4))
    assert out.intensity() == pytest.approx(1.0, rel=1e-3)
    assert by_name(LLAMA_2_7B, decode(32, 512))["out"].work.intensity() == pytest.approx(31.5, rel=1e-3)


def test_scores_of_a_long_prompt() -> None:
    """S2-13: QK^T of one head at 4096 tokens has AI 120.5, 40.8 % of the ridge of an H100 (295)."""
    intensity = rl.ops.gemm(4096, 4096, 128, dtype="fp16").intensity()
    assert intensity == pytest.approx(120.471, rel=1e-4)
    assert intensity / 295.2 == pytest.approx(0.408, abs=5e-4)


def test_times_of_training_scores_and_decoding_at_stated_rates() -> None:
    """S2-12 4.81 ms at 800 TFLOP/s, 12.1 x the ridge; S2-13 19.3 us a head at 55 % of 3.35 TB/s, 619 us for 32 of them and
    memory-bound; S2-14 140 us at peak, 200 us and 5000 calls a second at 70 %."""
    h100 = rl.machine("h100-sxm")
    ridge = h100.peak("tensor.fp16", "stated").value / h100.bandwidth("main", "stated").value
    large = Architecture("large", 8192, 1000, (Layer(Attention(64, 64, 128), Mlp(28672, False)),))
    up = by_name(large, train(1, 8192))["up"]
    assert matrix(up) / 800e12 == pytest.approx(4.81e-3, rel=1e-3)
    assert up.work.intensity() / ridge == pytest.approx(12.1, rel=0.01)
    scores = rl.predict(rl.ops.batched_gemm(32, 4096, 4096, 128, dtype="fp16"), h100, ceilings="stated")
    assert str(scores.bounds[0].bound) == "memory"
    assert float(scores.bounds[0].memory_time) / 0.55 == pytest.approx(619e-6, rel=2e-3)
    assert float(scores.bounds[0].memory_time) / 0.55 / 32 == pytest.approx(19.3e-6, rel=3e-3)
    vector = rl.predict(by_name(large, decode(1, 4096))["up"].work, h100, ceilings="stated")
    peak = float(vector.bounds[0].memory_time)
    assert peak == pytest.approx(140e-6, rel=3e-3)
    assert 0.7 / peak == pytest.approx(5000, rel=3e-3)


def test_data_parallelism_sends_a_byte_per_3B_flops_over_N_minus_1_devices() -> None:
    """S0-88: 3 B / ((N - 1) d) for B tokens of all devices; the products of a step against the gradients of their weights."""
    for devices in (2, 8):
        phase = train(16, 128)
        listed = step_ops(LLAMA_2_7B, phase, layout=Layout(dp=devices))
        weights = [op for op in listed if op.work.name == "linear" and op.weights]
        products = [op for op in listed if op.work.name in ("linear", "gemm")]
        share = sum(op.weights * op.count for op in weights) / sum(op.weights * op.count for op in listed)
        sent = sum(op.work.bytes_at("link") * op.count for op in listed if op.over == "dp") * share
        flops = sum(matrix(op) * op.count for op in products)
        assert flops / sent == pytest.approx(gradient_intensity(16 * 128, devices), rel=1e-12)


def test_where_data_parallelism_is_communication_bound() -> None:
    """S0-89: at the ridge of a link (312 TFLOP/s over 300, 32 and 12.5 GB/s: 1040, 9750, 24960 FLOP/B) with 0.5 M tokens."""
    ridges = np.array([312e12 / 300e9, 312e12 / 32e9, 312e12 / 12.5e9])
    assert list(np.round(ridges)) == [1040, 9750, 24960]
    most = most_data_parallel(2.0**19, ridges)
    assert list(most) == [757, 81, 32]
    for devices, ridge in zip(most, ridges, strict=True):
        assert gradient_intensity(2.0**19, devices) >= ridge > gradient_intensity(2.0**19, devices + 1)


def test_drafts_yield_the_sum_of_a_geometric_series() -> None:
    for rate, drafted in ((0.0, 4), (0.7, 3), (0.95, 8), (1.0, 5)):
        assert expected_tokens(rate, drafted) == pytest.approx(sum(rate**place for place in range(drafted + 1)))
    with pytest.raises(RidgelineError, match=r"acceptance rate must be between 0 and 1, got 1\.2"):
        expected_tokens(1.2, 3)


def test_verifying_reads_the_weights_once() -> None:
    """Four drafts: four steps of the draft model at growing contexts, and one of the target over five tokens."""
    phase = decode(2, 1000)
    listed = speculative_ops(LLAMA_8B, GPT2, phase, 4)
    drafting = [op for op in listed if op.name.startswith("draft ")]
    apart = [op for place in range(4) for op in step_ops(GPT2, decode(2, 1000 + place))]
    for count in ("flops", "bytes"):
        total = sum(getattr(op, count) for op in drafting)
        assert total == pytest.approx(sum(getattr(op, count) for op in apart), rel=1e-12)
    verify = [replace(op, name=op.name.removeprefix("verify ")) for op in listed if op.name.startswith("verify ")]
    assert verify == [*step_ops(LLAMA_8B, decode(2, 1000, tokens=5.0))]
    weights = sum(op.work.moves.get(("main", "W", "read"), 0.0) * op.count for op in verify)
    assert weights == sum(op.work.moves.get(("main", "W", "read"), 0.0) * op.count for op in step_ops(LLAMA_8B, phase))
    for wrong, message in ((prefill(1, 8), "verifies a decode step, not prefill"), (phase, "at least 1 token, got 0")):
        with pytest.raises(RidgelineError, match=message):
            speculative_ops(LLAMA_8B, GPT2, wrong, 0)


@pytest.mark.parametrize(("tp", "sequence", "per_hidden"), [(1, False, 32), (4, False, 8 + 24 / 4), (4, True, 32 / 4)])
def test_a_layer_of_gpt_keeps_what_published_formulas_say(tp: int, sequence: bool, per_hidden: float) -> None:
    """Korthikanti et al. 2022, table 2: 34 s b h, s b h (10 + 24/t), 34 s b h / t bytes with dropout, whose masks are 2 s b h."""
    phase = train(4, 256)
    device = Device(GPT2, phase, Formats(), Layout(tp=tp, sequence=sequence))
    assert kept_per_layer(device, GPT2.layers[0]) == per_hidden * 4 * 256 * 768
    full = replace(device, phase=train(4, 256, recompute="full"))
    assert kept_per_layer(full, GPT2.layers[0]) == 2 * 4 * 256 * 768 / (tp if sequence else 1)


def test_activations_of_steps() -> None:
    """More is kept without recomputation, and by a pipeline's first stage, which has as many microbatches as stages."""
    for architecture in (LLAMA_8B, MIXTRAL, DEEPSEEK):
        kept, full = (training_activations(architecture, train(8, 512, recompute=how)) for how in ("none", "full"))
        assert full < kept
    # without the head, whose logits only the last stage holds
    headless = replace(LLAMA_8B, head=False)
    once = training_activations(headless, train(8, 512))
    assert training_activations(headless, train(8, 512, 8), layout=Layout(pp=4)) == once / 8
    listed = step_ops(LLAMA_8B, prefill(1, 1024))
    held = inference_activations(listed, 1024, 4096)
    assert held == 1024 * 4096 * 2 + 1024 * (3 * 14336) * 2  # the residual, gate and up with their product
