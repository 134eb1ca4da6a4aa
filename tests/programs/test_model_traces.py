"""Products and attention of layers against the trace of the same `transformers` modules.

Each module is built on the meta device with one layer of every kind and traced over a prompt; each of its products and
attention calls is compared with an op of the step in eager style: matrix FLOPs and bytes, call by call. The trace counts what
torch runs, the step follows from the configuration alone: shapes, number and formats of calls are found twice. The formulas from
a shape to FLOPs and bytes are the same `ops` on both sides, and are checked in their own tests.

Not compared: the outer product of positions and frequencies, once per step; the bytes of the router of DeepSeek-V3, which computes
in fp32 where the step has the format of all activations. GPT-2 stores Q, K and V in one matrix, as the fused style multiplies
them. The other passes are compared in total, where the style lists all of them: Llama, Mistral and Qwen3.

Where `transformers` computes more than the model needs the step does not follow: GPT-J, BLOOM, Falcon and gpt-oss run attention as two
products over masked pairs as well, Llama 4 runs every expert over every token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from traced import matrix_flops

import ridgeline as rl
from ridgeline.core.timeline import BACKWARD, FORWARD
from ridgeline.core.trace import Trace
from ridgeline.core.work import Work
from ridgeline.programs.models.hf import read_config
from ridgeline.programs.models.model_op import ModelOp
from ridgeline.programs.models.phase import decode, prefill, train
from ridgeline.programs.models.program import step_ops

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
pytestmark = pytest.mark.needs_torch

BATCH, LENGTH = 2, 128
SIZES = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 8,
    "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip
TWO_LAYERS = SIZES | {"num_hidden_layers": 2}
MODULES = {
    "Llama": SIZES,
    "Mistral": SIZES | {"sliding_window": 32},
    "Mixtral": SIZES | {"num_local_experts": 8, "num_experts_per_tok": 2},
    "Qwen3": SIZES | {"head_dim": 32},
    "Cohere": SIZES | {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0},
    "Gemma2": TWO_LAYERS | {"head_dim": 32, "sliding_window": 32},
    "GPT2": {"n_embd": 256, "n_layer": 1, "n_head": 8, "vocab_size": 1000, "bos_token_id": 0, "eos_token_id": 0},
    "DeepseekV3": TWO_LAYERS | {
        "num_key_value_heads": 8, "moe_intermediate_size": 128, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "n_shared_experts": 1, "q_lora_rank": 64, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
        "v_head_dim": 16, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
    },
}  # fmt: skip


def config(name: str) -> Any:
    return getattr(transformers, f"{name}Config")(**MODULES[name])


def module(name: str) -> Any:
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(config(name), dtype=torch.bfloat16).eval()


def traced(name: str) -> Trace:
    ids = torch.empty(BATCH, LENGTH, dtype=torch.long, device="meta")
    with torch.no_grad():
        trace = rl.trace(module(name), ids, kwargs={"use_cache": False, "logits_to_keep": 1})
    assert not trace.uncounted
    return trace


def products(works: Iterable[tuple[Work, float]]) -> list[tuple[float, float]]:
    """Matrix FLOPs and bytes of every call that has any, sorted."""
    counted = []
    for work, count in works:
        flops = sum(float(value) for (engine, *_), value in work.counts.items() if engine == "matrix")
        counted += [(flops, float(work.bytes))] * int(count) if flops else []
    return sorted(counted)


def of_step(listed: Iterable[ModelOp]) -> list[tuple[float, float]]:
    return products((op.work, float(op.count)) for op in listed)


def of_trace(trace: Trace) -> list[tuple[float, float]]:
    """Without the angles of rotary positions."""
    rows = zip(trace.ops, trace.counts, strict=True)
    works = [(op.work, count) for op, count in rows if op.work is not None and "rotary_emb" not in str(op.site.modules)]
    return products(works)


@pytest.mark.parametrize("name", MODULES)
def test_products_and_attention_are_those_of_the_module(name: str) -> None:
    listed = step_ops(read_config(config(name).to_dict()), prefill(BATCH, LENGTH), fused=name == "GPT2")
    step, trace = of_step(listed), of_trace(traced(name))
    if name == "DeepseekV3":
        (router,) = [op for op in listed if op.name == "router"]
        rows, fp32 = BATCH * LENGTH, 4
        wide = (256 * rows + 256 * 8 + rows * 8) * fp32
        step.remove((2 * rows * 256 * 8, float(router.work.bytes)))
        step = sorted([*step, (2 * rows * 256 * 8, float(wide))])
    assert step == trace


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen3"])
def test_bytes_of_all_passes_are_those_of_the_module(name: str) -> None:
    """Within 2 %, which is what is computed once per step: positions, cosines and sines, masks."""
    listed = step_ops(read_config(config(name).to_dict()), prefill(BATCH, LENGTH), fused=False)
    trace = traced(name)
    moved = sum(float(op.work.bytes) * count for op, count in zip(trace.ops, trace.counts, strict=True) if op.work)
    assert float(np.sum([op.bytes for op in listed])) == pytest.approx(moved, rel=0.02)


def test_decoding_with_a_cache() -> None:
    """One token after a prompt that the cache of the module holds."""
    model = module("Llama")
    cache = transformers.DynamicCache(config=model.config)
    with torch.device("meta"):
        keys = torch.empty(BATCH, 2, LENGTH, 32, dtype=torch.bfloat16)
        cache.update(keys, keys, 0)
    ids = torch.empty(BATCH, 1, dtype=torch.long, device="meta")
    with torch.no_grad():
        trace = rl.trace(model, ids, kwargs={"past_key_values": cache})
    listed = step_ops(read_config(model.config.to_dict()), decode(BATCH, LENGTH), fused=False)
    assert of_step(listed) == of_trace(trace)


def test_training() -> None:
    """Forward and backward products of a module with a loss over every token."""
    model = module("Llama").train()
    ids = torch.empty(BATCH, LENGTH, dtype=torch.long, device="meta")
    trace = rl.trace(lambda ids: model(ids, labels=ids, use_cache=False).loss, ids, backward=True)
    listed = step_ops(read_config(model.config.to_dict()), train(BATCH, LENGTH), fused=False)
    angles = 2 * LENGTH * 16
    assert sum(flops for flops, _ in of_step(listed)) == matrix_flops(trace) - angles
    for step_pass, phase in (("forward", FORWARD), ("backward", BACKWARD)):
        rows = zip(trace.ops, trace.counts, strict=True)
        works = [(op.work, count) for op, count in rows if op.work is not None and op.site.phase == phase]
        seen = [pair for pair in products(works) if pair[0] != angles]
        assert of_step([op for op in listed if op.step_pass == step_pass]) == seen
