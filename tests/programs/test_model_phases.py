"""Steps of models: counts against closed forms, laws of growth, formats, mixed batches, bad input."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_examples import (
    BERT,
    DEEPSEEK,
    FALCON,
    GEMMA,
    GPT2,
    GPT_OSS,
    LLAMA_8B,
    MIXTRAL,
    SMALL,
    SMALL_LATENT,
    SMALL_MOE,
)

from ridgeline.core.errors import RidgelineError
from ridgeline.core.families import attention
from ridgeline.programs.models.architecture import Architecture, Layer
from ridgeline.programs.models.load import architecture as load
from ridgeline.programs.models.load import known
from ridgeline.programs.models.model_op import ModelOp
from ridgeline.programs.models.parameters import parameters
from ridgeline.programs.models.phase import Formats, Phase, decode, mixed, prefill, train
from ridgeline.programs.models.program import device_parameters, step_ops


def flops(listed: Iterable[ModelOp], engine: str = "matrix") -> float:
    return sum(
        np.sum(value * op.count) for op in listed for (unit, *_), value in op.work.counts.items() if unit == engine
    )


def moved(listed: Iterable[ModelOp]) -> float:
    return sum(np.sum(op.bytes) for op in listed)


def named(listed: Iterable[ModelOp], name: str) -> ModelOp:
    (op,) = [op for op in listed if op.name == name]
    return op


def test_weights_of_the_ops_are_the_parameters_of_the_models() -> None:
    """The published counts: every learned value belongs to one op of the forward pass, of any phase and style."""
    for architecture, count in (
        (LLAMA_8B, 8_030_261_248),
        (MIXTRAL, 46_702_792_704),
        (DEEPSEEK, 671_026_419_200),
        (GPT2, 124_439_808),
    ):
        for phase in (prefill(1, 8), decode(2, 8), mixed(prefill(1, 8, 4), decode(2, 8))):
            for fused in (True, False):
                assert device_parameters(step_ops(architecture, phase, fused=fused)) == count, (
                    architecture.name,
                    phase,
                )


def test_every_known_model_has_ops_that_hold_its_parameters() -> None:
    """The same counts from ops of prompts and decoding as from the formulas of tensors, for every model of the list."""
    for name in known():
        architecture = load(name)
        phases = [prefill(1, 16), decode(1, 16)] if architecture.causal else [prefill(1, 16)]
        for phase in phases:
            assert device_parameters(step_ops(architecture, phase)) == parameters(architecture).total, name


def test_a_prompt_of_llama_takes_two_flops_per_weight_and_token_and_attention() -> None:
    """2 x (parameters - embedding - norms - head) x tokens, the head for one token, 4 x heads x D flops per visible pair."""
    tokens = 512
    matrices = 32 * (4096 * (32 + 16) * 128 + 4096 * 4096 + 3 * 4096 * 14336)
    pairs = tokens * (tokens + 1) / 2
    expected = 2 * matrices * tokens + 2 * 4096 * 128256 + 32 * 4 * 32 * 128 * pairs
    assert flops(step_ops(LLAMA_8B, prefill(1, tokens))) == expected
    assert flops(step_ops(LLAMA_8B, prefill(1, tokens), fused=False)) == expected


def test_decoding_reads_the_weights_and_the_cache_once() -> None:
    """Bytes of the matrices and of K and V of every token in sight; all else is below 1 % at a short context."""
    context, batch = 1000, 4
    listed = step_ops(LLAMA_8B, decode(batch, context))
    weights = 2 * (32 * (4096 * (32 + 16) * 128 + 4096 * 4096 + 3 * 4096 * 14336) + 4096 * 128256)
    cache = batch * 32 * 2 * 8 * 128 * 2 * (context + 1)
    assert weights + cache < moved(listed) < 1.01 * (weights + cache)
    attention = named(listed, "attention").work
    assert attention.bytes_at("main", "read") * 32 == cache + batch * 32 * 32 * 128 * 2


def test_latent_attention_expanded_and_absorbed() -> None:
    """Expanded 2 (d_nope + d_rope) + 2 d_v flops per pair and head, absorbed 4 r + 2 d_rope; the cache is read once for all heads.

    Absorbed and expanded are the same function: the absorbed products of a query take what the expansion of one key takes.
    """
    expanded = named([op for op in step_ops(DEEPSEEK, prefill(1, 16)) if op.layer == 0], "attention").work
    pairs = 16 * 17 / 2
    assert expanded.counts["matrix", "bf16", "Q K^T"] + expanded.counts["matrix", "bf16", "P V"] == (
        128 * pairs * (2 * (128 + 64) + 2 * 128)
    )
    listed = [op for op in step_ops(DEEPSEEK, decode(2, 100)) if op.layer == 0]
    absorbed = named(listed, "attention").work
    assert flops([named(listed, "attention")]) == 3 * 2 * 128 * 101 * (4 * 512 + 2 * 64)
    assert absorbed.moves["main", "K", "read"] == 2 * 101 * 576 * 2
    around = flops([named(listed, "q absorb"), named(listed, "v up")])
    expansion = named([op for op in step_ops(DEEPSEEK, prefill(1, 2)) if op.layer == 0], "kv up")
    assert around == flops([expansion])


def test_a_chunk_expands_the_context_of_latent_attention_again() -> None:
    listed = [op for op in step_ops(DEEPSEEK, prefill(1, 100, context=300)) if op.layer == 0]
    assert named(listed, "kv up").work.shape["batch"] == 400
    assert named(listed, "out").work.shape["batch"] == 100


def test_chunks_of_a_prompt_see_as_many_pairs_as_the_prompt() -> None:
    for architecture in (LLAMA_8B, GEMMA, GPT_OSS):
        entire = flops([op for op in step_ops(architecture, prefill(2, 96)) if op.name == "attention"])
        parts = [prefill(2, 32, context) for context in (0, 32, 64)]
        assert entire == sum(
            flops([op for op in step_ops(architecture, part) if op.name == "attention"]) for part in parts
        )


def test_windows_bound_what_decoding_reads() -> None:
    near, far = (step_ops(GEMMA, decode(1, context)) for context in (100, 1000))
    windowed, full = ([op for op in ops if op.name == "attention"] for ops in (near, far))
    assert windowed[0].bytes == full[0].bytes
    assert windowed[1].bytes < full[1].bytes
    assert windowed[0].work.kernels  # one query over a window is a kernel that is known


def test_kernels_of_windows_and_verified_drafts() -> None:
    """A causal kernel that looks at the keys of its window, and decoding with more heads."""
    (windowed, _) = [op.work for op in step_ops(GEMMA, prefill(1, 128)) if op.name == "attention"]
    (kernel,) = windowed.kernels
    sizes = kernel.sizes
    assert (sizes["kv"], sizes["causal"], sizes["window"]) == (128, 1, 64)
    pairs = attention.visible_pairs(sizes["q"], sizes["kv"], sizes["causal"], sizes["window"])
    assert pairs * 8 * 4 * 32 == sum(value for (engine, *_), value in windowed.counts.items() if engine == "matrix")
    plain, draft = (named(step_ops(LLAMA_8B, decode(3, 100, tokens)), "attention").work.kernels[0] for tokens in (1, 5))
    assert {**draft.sizes, "kv": 101} == {**plain.sizes, "heads": 5 * 32}


def test_chunked_windows_see_their_own_chunk() -> None:
    from dataclasses import replace

    layer = GEMMA.layers[0]
    chunked = replace(GEMMA, layers=(replace(layer, attention=replace(layer.attention, chunked=True)),))
    work = named(step_ops(chunked, prefill(1, 160)), "attention").work
    pairs = 2 * 64 * 65 / 2 + 32 * 33 / 2  # two full chunks of 64 and one of 32
    assert work.counts["matrix", "bf16", "Q K^T"] == pytest.approx(2 * 32 * 8 * pairs, rel=1e-12)
    assert named(step_ops(chunked, decode(1, 64)), "attention").work.shape["seq_kv"] == 1


def test_experts_read_are_those_that_got_tokens() -> None:
    """One token reads its top 2 of 8, many tokens all; at random on average 8 (1 - (3/4)^4) of four tokens."""
    for tokens, routing, count in ((1, "uniform", 2), (4, "balanced", 8), (4, "uniform", 8 * (1 - 0.75**4)), (4096, "uniform", 8)):  # fmt: skip
        work = named(step_ops(MIXTRAL, decode(tokens, 10), routing=routing), "experts").work
        assert work.moves["main", "weights", "read"] == pytest.approx(count * 3 * 4096 * 14336 * 2, rel=1e-9)
        assert work.counts["matrix", "bf16", "experts"] == tokens * 2 * 6 * 4096 * 14336


def test_logits_are_computed_for_the_tokens_that_need_them() -> None:
    rows = {
        "prefill": (prefill(3, 7), LLAMA_8B, 3), "decode": (decode(3, 7), LLAMA_8B, 3),
        "verify": (decode(3, 7, tokens=5), LLAMA_8B, 15), "train": (train(3, 7), LLAMA_8B, 21),
        "encoder": (prefill(3, 7), BERT, 21), "mixed": (mixed(prefill(1, 7), decode(3, 7)), LLAMA_8B, 4),
    }  # fmt: skip
    for name, (phase, architecture, count) in rows.items():
        assert named(step_ops(architecture, phase), "head").work.shape["batch"] == count, name


def test_a_mixed_step_reads_the_weights_once() -> None:
    chunk, decoding = prefill(1, 512, 512), decode(16, 1000)
    together = step_ops(LLAMA_8B, mixed(chunk, decoding))
    apart = (*step_ops(LLAMA_8B, chunk), *step_ops(LLAMA_8B, decoding))
    assert flops(together) == flops(apart)
    weights = 2 * (8_030_261_248 - 128256 * 4096)
    assert moved(apart) - moved(together) == pytest.approx(weights, rel=1e-3)


def test_quantized_formats() -> None:
    """int4 with fp16 scales per 128: 4.125 bits a weight; fp8 products quantize their inputs, which the ops name."""
    plain, narrow = (named(step_ops(LLAMA_8B, decode(1, 10), Formats(weights)), "down").work for weights in ("bf16", "int4_g128"))  # fmt: skip
    assert narrow.moves["main", "W", "read"] == plain.moves["main", "W", "read"] * 4.125 / 16
    assert [kernel.family for kernel in narrow.kernels] == ["weight_only"]
    listed = step_ops(LLAMA_8B, prefill(1, 64), Formats("fp8_e4m3", "fp8_e4m3", "fp8_e4m3"))
    quantizing = [op for op in listed if op.name == "quantize"]
    assert len(quantizing) == 4
    assert quantizing[0].work.moves["main", "y", "write"] * 2 == quantizing[0].work.moves["main", "x", "read"]
    assert named(listed, "qkv").work.dtype == "fp8_e4m3"
    assert named(listed, "head").work.dtype == named(listed, "attention").work.dtype == "bf16"
    with pytest.raises(RidgelineError, match="products in fp8_e4m3 need weights of at most 8 bits, got bf16"):
        Formats("bf16", "fp8_e4m3")


def test_fused_steps_move_less_and_compute_the_same_products() -> None:
    for architecture in (*SMALL, GPT2):
        # prompts no longer than the windows, which eager mode masks and does not spare
        fused, eager = (step_ops(architecture, prefill(2, 24), fused=flag) for flag in (True, False))
        assert flops(fused) == pytest.approx(flops(eager), rel=1e-12)
        assert moved(fused) <= moved(eager)
        assert sum(op.count for op in fused) < sum(op.count for op in eager)


def test_parallel_layers_add_both_branches_in_one_norm() -> None:
    (norm,) = [op for op in step_ops(FALCON, prefill(1, 10)) if op.name == "add and norm"]
    assert norm.count == 4
    assert sum(way == "read" and tensor.startswith("x") for _, tensor, way in norm.work.moves) == 3


SIZES = st.integers(1, 200)


@given(st.sampled_from(SMALL), SIZES, SIZES, st.integers(0, 200), st.booleans())
def test_more_sequences_tokens_context_or_layers_never_take_less(
    architecture: Architecture, batch: int, tokens: int, context: int, fused: bool
) -> None:
    def counts(architecture: Architecture, phase: Phase) -> tuple[float, float, float]:
        listed = step_ops(architecture, phase, fused=fused)
        return flops(listed), flops(listed, "vector"), moved(listed)

    base = counts(architecture, prefill(batch, tokens, context))
    deeper = Architecture(**{**vars(architecture), "layers": (*architecture.layers, Layer(architecture.layers[0].attention, architecture.layers[0].mlp))})  # fmt: skip
    grown = [
        counts(architecture, prefill(batch + 1, tokens, context)), counts(architecture, prefill(batch, tokens + 1, context)),
        counts(architecture, prefill(batch, tokens, context + 1)), counts(deeper, prefill(batch, tokens, context)),
    ]  # fmt: skip
    if architecture.causal:
        assert min(np.subtract(counts(architecture, decode(batch, context + 1)), counts(architecture, decode(batch, context)))) >= 0  # fmt: skip
    for more in grown:
        assert all(after >= before * (1 - 1e-12) for before, after in zip(base, more, strict=True))


@given(st.sampled_from((*SMALL[:4], GPT_OSS)), st.lists(SIZES, min_size=1, max_size=4), st.booleans())
def test_many_batches_are_one_call(architecture: Architecture, batches: list[int], fused: bool) -> None:
    contexts = np.arange(len(batches)) * 30.0
    together = step_ops(architecture, decode(np.array(batches), contexts), fused=fused)
    for place, batch in enumerate(batches):
        alone = step_ops(architecture, decode(batch, contexts[place]), fused=fused)
        for op, single in zip(together, alone, strict=True):
            assert op.name == single.name
            assert np.broadcast_to(op.bytes, len(batches))[place] == pytest.approx(single.bytes, rel=1e-12)
            assert np.broadcast_to(op.flops, len(batches))[place] == pytest.approx(single.flops, rel=1e-12)


def test_contexts_of_different_lengths_count_as_their_mean() -> None:
    apart = step_ops(LLAMA_8B, decode(1, np.array([100.0, 401.0])))
    together = step_ops(LLAMA_8B, decode(2, 250.5))
    for counted in (flops, moved):
        assert counted([named(together, "attention")]) == counted([named(apart, "attention")])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: prefill(0, 8), "prefill: batch must be at least 1, got '0'"),
        (lambda: decode(1, -1), "decode: context must be at least 0, got '-1'"),
        (lambda: prefill(1, float("nan")), "prefill: tokens must be at least 1, got 'nan'"),
        (lambda: prefill("many", 8), "prefill: batch must be at least 1, got 'many'"),
        (lambda: prefill([], 8), "prefill: batch must be at least 1"),
        (lambda: Phase("serve", 1, 1), "phase"),
        (lambda: Phase("decode", 1, 1, recompute="full"), "belong to a training step, not to decode"),
        (lambda: mixed(train(1, 8), decode(1, 8)), "training step has one kind of sequences"),
        (lambda: step_ops(BERT, decode(1, 8)), "small-bert is an encoder: it has no cache"),
        (lambda: step_ops(SMALL_MOE, decode(1, 8), routing="skewed"), "routing"),
        (lambda: step_ops(SMALL_LATENT, decode(1, 8), stage=1), "stage 1 is not there: pp=1 has stages 0 to 0"),
    ],
)
def test_bad_input_is_one_message(make: object, message: str) -> None:
    with pytest.raises(RidgelineError, match=message):
        make()  # type: ignore[operator]
