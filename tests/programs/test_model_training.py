"""Training steps: backward against forward, recomputation, microbatches, optimizer."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from model_examples import BERT, DEEPSEEK, GPT2, LLAMA_8B, MIXTRAL, SMALL

import ridgeline as rl
from ridgeline.programs.models.architecture import Architecture, Latent
from ridgeline.programs.models.model_op import BACKWARD, FORWARD, OPTIMIZER, RECOMPUTED, UPDATE, ModelOp
from ridgeline.programs.models.phase import Formats, train
from ridgeline.programs.models.program import step_ops
from ridgeline.programs.models.training import adamw


def flops(listed: Iterable[ModelOp], step_pass: str, name: str = "") -> float:
    return sum(
        float(np.sum(value * op.count))
        for op in listed
        if op.step_pass == step_pass and (not name or op.name.startswith(name))
        for (unit, *_), value in op.work.counts.items()
        if unit == "matrix"
    )


@pytest.mark.parametrize("architecture", [*SMALL, LLAMA_8B, MIXTRAL, DEEPSEEK, GPT2], ids=lambda model: model.name)
def test_backward_is_twice_forward_and_attention_two_and_a_half_times(architecture: Architecture) -> None:
    """Two products for every one; five for the two of attention, where the heads of V are as long as those of K."""
    for fused in (True, False):
        listed = step_ops(architecture, train(4, 256), fused=fused)
        attention = flops(listed, FORWARD, "attention")
        products = flops(listed, FORWARD) - attention
        assert flops(listed, BACKWARD) - flops(listed, BACKWARD, "attention") == pytest.approx(2 * products, rel=1e-12)
        if not isinstance(architecture.layers[0].attention, Latent):
            assert flops(listed, BACKWARD, "attention") == pytest.approx(2.5 * attention, rel=1e-12)


def test_the_flops_of_a_step_are_six_per_weight_and_token() -> None:
    """6 x (parameters - embedding - norms) x tokens, and 14 x heads x D flops for every visible pair."""
    tokens = 8 * 1024
    weights = 8_030_261_248 - 128256 * 4096 - 65 * 4096
    pairs = 8 * 1024 * 1025 / 2
    listed = step_ops(LLAMA_8B, train(8, 1024))
    expected = 6 * weights * tokens + 32 * 32 * 128 * 14 * pairs
    assert flops(listed, FORWARD) + flops(listed, BACKWARD) == pytest.approx(expected, rel=1e-12)


def test_recomputation() -> None:
    none, selective, full = (step_ops(LLAMA_8B, train(2, 512, recompute=how)) for how in ("none", "selective", "full"))
    assert flops(none, RECOMPUTED) == 0
    assert flops(selective, RECOMPUTED) == flops(none, FORWARD, "attention")
    outside = flops(none, FORWARD, "head")
    assert flops(full, RECOMPUTED) == flops(none, FORWARD) - outside
    assert flops(full, FORWARD) == flops(none, FORWARD)


def test_microbatches_share_the_tokens_and_the_update() -> None:
    once, four = (step_ops(LLAMA_8B, train(8, 64, microbatches)) for microbatches in (1, 4))
    for step_pass in (FORWARD, BACKWARD, UPDATE):
        assert flops(once, step_pass) == pytest.approx(flops(four, step_pass), rel=1e-12)
    weights = [
        sum(np.sum(op.work.moves.get(("main", "W", "read"), 0.0) * op.count) for op in ops) for ops in (once, four)
    ]
    assert weights[1] == 4 * weights[0]
    (adding,) = [op for op in four if op.name == "down wgrad"]
    assert ("main", "C", "read") in adding.work.moves  # added to the gradients of the microbatches before


def test_the_update_counts_as_the_optimizer_op() -> None:
    """fp32 everywhere it is `ops.adamw`; in mixed precision 2 bytes of gradient less and 2 of weights more: 28 B a value."""
    plain, op = adamw(1000.0, "fp32", "fp32", "fp32"), rl.ops.adamw(1000)
    assert (plain.flops, plain.bytes, plain.special) == (op.flops, op.bytes, op.special)
    assert adamw(1000.0, "bf16", "bf16", "fp32").bytes == 28_000
    (update,) = [op for op in step_ops(LLAMA_8B, train(1, 8), Formats(gradients="fp32")) if op.name == "adamw"]
    assert update.bytes == 30 * 8_030_261_248


def test_training_is_three_times_inference_and_an_update_that_memory_bounds() -> None:
    """S0-96: forward and backward are 3 x the products of forward; the optimizer is a step of its own with half a FLOP per byte."""
    listed = step_ops(GPT2, train(8, 128))
    products = [op for op in listed if "attention" not in op.name]
    assert flops(products, FORWARD) + flops(products, BACKWARD) == pytest.approx(3 * flops(products, FORWARD))
    (update,) = [op for op in listed if op.part == OPTIMIZER]
    assert update.work.intensity() == 0.5


def test_encoders_and_tied_heads_train() -> None:
    for architecture in (BERT, GPT2):
        names = [op.name for op in step_ops(architecture, train(2, 16))]
        assert {"head wgrad", "embedding backward", "positions backward", "loss", "loss backward"} <= set(names)
