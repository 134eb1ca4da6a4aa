"""FLOPs of well-known models against closed forms from their configurations, and against torch's counter where it is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traced import matrix_flops, names

import ridgeline as rl
from ridgeline.core.timeline import BACKWARD, FORWARD
from ridgeline.core.trace import Trace

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
pytestmark = pytest.mark.needs_torch
EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"


def linear(rows: int, inputs: int, outputs: int) -> int:
    return 2 * rows * inputs * outputs


def attention(batch: int, heads: int, length: int, head: int, causal: bool) -> int:
    """Two products of 2 D flops for every pair that is seen; keys and values that heads share change nothing."""
    pairs = length * (length + 1) // 2 if causal else length * length
    return 4 * batch * heads * pairs * head


def meta(build: Callable[[], Any]) -> Any:
    with torch.device("meta"):
        return build().eval()


def tokens(batch: int, length: int) -> Any:
    return torch.empty(batch, length, dtype=torch.long, device="meta")


def by_torch(model: Any, *args: Any, **kwargs: Any) -> float:
    """What torch's counter finds on the meta device, where attention is two products of all pairs."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*args, **kwargs)
    return float(counter.get_total_flops())


def traced(model: Any, *args: Any, **kwargs: Any) -> Trace:
    with torch.no_grad():
        trace = rl.trace(model, *args, kwargs=kwargs)
    assert not trace.uncounted
    return trace


def test_resnet_50() -> None:
    """Convolutions of 2 x outputs x inputs per output x window; the published count is 4.09 G multiply-adds an image."""
    trace = rl.trace(f"{EXAMPLES / 'resnet50.py'}:inference")
    batch, side, inputs = 64, 56, 64
    total = 2 * 112 * 112 * 64 * 3 * 49
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            halved = stage > 0 and block == 0
            total += 2 * side * side * width * inputs
            side //= 2 if halved else 1
            total += 2 * side * side * (width * width * 9 + 4 * width * width)
            total += 2 * side * side * 4 * width * inputs if block == 0 else 0
            inputs = 4 * width
    total += linear(1, 2048, 1000)
    assert matrix_flops(trace) == batch * total
    assert total / 2 == pytest.approx(4.09e9, rel=0.002)


def test_vit_b_16() -> None:
    trace = rl.trace(f"{EXAMPLES / 'vit.py'}:inference")
    batch, length, width = 64, 14 * 14 + 1, 768
    layer = linear(batch * length, width, 12 * width) + attention(batch, 12, length, 64, causal=False)
    patches = linear(batch * 14 * 14, 3 * 16 * 16, width)
    assert matrix_flops(trace) == 12 * layer + patches + linear(batch, width, 1000)
    assert names(trace)["_scaled_dot_product_cudnn_attention"] == 12


def test_bert_base() -> None:
    model, batch, length, width = meta(lambda: transformers.BertModel(transformers.BertConfig())), 2, 128, 768
    layer = linear(batch * length, width, 4 * width + 8 * width) + attention(batch, 12, length, 64, causal=False)
    trace = traced(model, tokens(batch, length))
    assert matrix_flops(trace) == 12 * layer + linear(batch, width, width)  # and the pooled first token
    assert matrix_flops(trace) == by_torch(model, tokens(batch, length))


def test_gpt2() -> None:
    model, batch, length, width = meta(lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config())), 2, 256, 768
    layer = linear(batch * length, width, 12 * width) + attention(batch, 12, length, 64, causal=True)
    trace = traced(model, tokens(batch, length), use_cache=False)
    assert matrix_flops(trace) == 12 * layer + linear(batch * length, width, 50257)


def test_gpt2_with_torchs_counter() -> None:
    """Torch's counter knows attention as separate products of all pairs, hidden ones too."""
    config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100, attn_implementation="eager")
    separate = transformers.GPT2LMHeadModel(config).eval()
    fused = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100)).eval()
    ids = torch.zeros(2, 32, dtype=torch.long)
    hidden = attention(2, 4, 32, 16, causal=False) - attention(2, 4, 32, 16, causal=True)
    assert matrix_flops(traced(fused, ids, use_cache=False)) + 2 * hidden == by_torch(separate, ids, use_cache=False)


def small_llama(layers: int = 2) -> Any:
    return transformers.LlamaConfig(
        hidden_size=512, intermediate_size=1408, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=2,
        vocab_size=1000,
    )  # fmt: skip


def llama_flops(batch: int, length: int, layers: int = 2) -> int:
    rows = batch * length
    layer = linear(rows, 512, 512 + 2 * 128 + 512 + 3 * 1408) + attention(batch, 8, length, 64, causal=True)
    angles = 2 * length * 32  # rotary positions: an outer product
    return layers * layer + linear(rows, 512, 1000) + angles


def test_llama_with_grouped_heads() -> None:
    model = meta(lambda: transformers.LlamaForCausalLM(small_llama())).to(torch.bfloat16)
    trace = traced(model, tokens(2, 128), use_cache=False)
    assert matrix_flops(trace) == llama_flops(2, 128)
    call = next(op.site.call for op in trace.ops if "attention" in op.site.call.name)
    assert (call.args[0].shape[1], call.args[1].shape[1]) == (8, 2)  # keys are not repeated for their groups


def test_the_backward_pass_of_llama_has_twice_the_products() -> None:
    model = meta(lambda: transformers.LlamaForCausalLM(small_llama())).to(torch.bfloat16).train()
    trace = rl.trace(lambda ids: model(ids, labels=ids, use_cache=False).loss, tokens(2, 128), backward=True)
    phases = {phase: matrix_flops_of(trace, phase) for phase in (FORWARD, BACKWARD)}
    attended = 2 * attention(2, 8, 128, 64, causal=True)  # of both layers
    angles = 2 * 128 * 32  # which have no gradient
    assert phases[FORWARD] == llama_flops(2, 128)
    assert phases[BACKWARD] == 2 * (phases[FORWARD] - attended - angles) + 2.5 * attended


def matrix_flops_of(trace: Trace, phase: str) -> float:
    return sum(
        float(value) * count
        for op, count in zip(trace.ops, trace.counts, strict=True)
        if op.work is not None and op.site.phase == phase
        for (engine, _, _), value in op.work.counts.items()
        if engine == "matrix"
    )


def test_mixtral_runs_two_of_its_experts() -> None:
    config = transformers.MixtralConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2,
        vocab_size=1000, num_local_experts=8, num_experts_per_tok=2,
    )  # fmt: skip
    model = meta(lambda: transformers.MixtralForCausalLM(config)).to(torch.bfloat16)
    rows = 2 * 128
    layer = linear(rows, 256, 256 + 2 * 64 + 256 + 8) + attention(2, 8, 128, 32, causal=True)
    experts = 2 * linear(rows, 256, 3 * 512)
    expected = 2 * (layer + experts) + linear(rows, 256, 1000) + 2 * 128 * 16
    assert matrix_flops(traced(model, tokens(2, 128), use_cache=False)) == expected


@pytest.mark.parametrize(
    "architecture", ["bloom", "t5", "gemma2", "qwen3_moe", "convnext", "swin", "wav2vec2", "deepseek_v3"]
)
def test_other_architectures_have_nothing_uncounted(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import trace_architectures

    result = trace_architectures.row(architecture)
    assert result["share"] <= 0.01, result["uncounted"]
    assert result["flops"] > 0
