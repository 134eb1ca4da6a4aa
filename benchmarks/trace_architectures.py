"""Trace architectures of `transformers` with random small configurations: what each does, and what has no count.

    python benchmarks/trace_architectures.py [--seed 0] [--only llama,bert] [--backward]

Prints a row per architecture: operator calls, GFLOP, and the share of the bytes that operators without a count move, each
named. Models are built on the meta device; nothing is downloaded.

Last complete run (forward, seed 0, transformers 5.17.0, torch 2.13): 88 of 93 traced, all with every byte counted. LED and Longformer
decide on values of tensors; FNet's Fourier transform has no bf16; Funnel and XLNet fail on the small configuration, not in the trace.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

TEXT = """
albert arcee bart bert big_bird biogpt bloom camembert codegen cohere convbert ctrl deberta deberta-v2 deepseek_v3 distilbert
electra ernie falcon fnet funnel gemma gemma2 gemma3_text glm gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite
granitemoe led llama longformer mamba mamba2 mistral mixtral mobilebert modernbert mpnet mpt mt5 nystromformer olmo olmo2 opt
pegasus persimmon phi phi3 qwen2 qwen2_moe qwen3 qwen3_moe rembert roberta roformer rwkv smollm3 squeezebert stablelm
starcoder2 t5 xglm xlm-roberta xlnet yoso
""".split()  # noqa: SIM905
VISION = """
beit convnext convnextv2 deit dinov2 dpt efficientnet focalnet mobilenet_v1 mobilenet_v2 mobilevit poolformer regnet resnet
segformer swin swinv2 vit vit_mae
""".split()  # noqa: SIM905
AUDIO = "hubert wav2vec2 wavlm whisper".split()  # noqa: SIM905
TWO_SIDED = frozenset("bart led mt5 pegasus t5".split())  # noqa: SIM905


def sizes(rng: random.Random) -> dict[str, Any]:
    """Small sizes that fit each other, by the names that configurations give them."""
    heads = rng.choice((4, 8))
    head = rng.choice((16, 32))
    width, layers, inner = heads * head, rng.choice((2, 3)), heads * head * rng.choice((2, 4))
    kv_heads = rng.choice((heads // 2, heads // 4))
    named = {
        ("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "word_embed_proj_dim"): width,
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers"): layers,
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"): heads,
        ("num_key_value_heads",): kv_heads,
        ("intermediate_size", "d_ff", "ffn_dim", "n_inner", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "d_inner", "dff"): inner,
        ("head_dim", "d_kv", "d_head"): head,
        ("vocab_size",): 512,
        ("max_position_embeddings", "n_positions", "max_seq_len"): 256,
        ("num_experts", "n_routed_experts", "num_local_experts"): 4,
        ("num_experts_per_tok",): 2,
        ("moe_intermediate_size", "shared_expert_intermediate_size"): inner // 2,
        ("rotary_dim",): head // 2,
    }  # fmt: skip
    return {name: value for names, value in named.items() for name in names}


# Settings that an architecture needs beside the sizes.
FURTHER: dict[str, dict[str, Any]] = {
    "deepseek_v3": {
        "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1, "q_lora_rank": 32, "kv_lora_rank": 16, "head_dim": None,
        "num_key_value_heads": None,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "longformer": {"attention_window": 16},
    "led": {"attention_window": 16},
    "falcon": {"head_dim": None},
    "funnel": {"num_hidden_layers": None, "block_sizes": [1, 1, 1]},
    "mamba2": {"hidden_size": 64, "num_heads": 8, "head_dim": 16, "n_groups": 2},
}  # fmt: skip


def config_of(name: str, rng: random.Random) -> Any:
    """A small random configuration; image and audio models keep their own sizes, with fewer layers where they have some."""
    from transformers import AutoConfig

    default = AutoConfig.for_model(name)
    small = sizes(rng) if name in TEXT else {"num_hidden_layers": 2}
    given = {key: value for key, value in small.items() if hasattr(default, key)}
    if name in TEXT and getattr(default, "num_key_value_heads", None) is None:
        given.pop("num_key_value_heads", None)
    if name == "whisper":
        given = {"encoder_layers": 2, "decoder_layers": 2}
    if name in TEXT:
        given |= {"pad_token_id": 0}
    given |= FURTHER.get(name, {})
    return AutoConfig.for_model(name, **{key: value for key, value in given.items() if value is not None})


def inputs_of(name: str, config: Any, rng: random.Random) -> dict[str, Any]:
    import torch

    batch, length = rng.choice((1, 2)), rng.choice((64, 128))
    tokens = torch.zeros(batch, length, dtype=torch.long)
    if name in TEXT:
        return {"input_ids": tokens} | ({"decoder_input_ids": tokens} if name in TWO_SIDED else {})
    if name in VISION:
        side = getattr(config, "image_size", None) or 224
        side = side if isinstance(side, int) else side[0]
        return {
            "pixel_values": torch.zeros(batch, getattr(config, "num_channels", 3), side, side, dtype=torch.bfloat16)
        }
    if name == "whisper":
        frames = torch.zeros(batch, config.num_mel_bins, 2 * config.max_source_positions, dtype=torch.bfloat16)
        return {"input_features": frames, "decoder_input_ids": tokens}
    return {"input_values": torch.zeros(batch, 16000, dtype=torch.bfloat16)}


def program(name: str, seed: int = 0) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A model of an architecture on the meta device, and its inputs."""
    import torch
    from transformers import AutoModel

    rng = random.Random(f"{name} {seed}")
    config = config_of(name, rng)
    with torch.device("meta"):
        model = AutoModel.from_config(config).to(torch.bfloat16)
    return model.eval(), inputs_of(name, config, rng)


def row(name: str, seed: int = 0, backward: bool = False) -> dict[str, Any]:
    """What a trace of an architecture finds."""
    import torch

    import ridgeline as rl

    model, inputs = program(name, seed)
    began = time.perf_counter()
    with torch.set_grad_enabled(backward):
        trace = rl.trace(model, kwargs=inputs, backward=backward)
    seconds = time.perf_counter() - began
    unknown = sum(op.bytes * count for op, count in trace.uncounted)
    moved = sum(
        op.bytes * count for op, count in zip(trace.ops, trace.counts, strict=True) if op.kind in ("work", "unknown")
    )
    return {
        "name": name, "calls": len(trace), "flops": trace.flops, "bytes": trace.bytes, "seconds": seconds,
        "share": unknown / moved if moved else 0.0,
        "uncounted": sorted({op.site.call.name for op, _ in trace.uncounted}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--backward", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    names = options.only.split(",") if options.only else [*TEXT, *VISION, *AUDIO]
    done = 0
    print(f"{'architecture':16} {'calls':>6} {'GFLOP':>9} {'MB':>9} {'s':>5}  uncounted bytes")
    for name in names:
        try:
            result = row(name, options.seed, options.backward)
        except Exception as error:  # one architecture that cannot be built must not end the table
            print(
                f"{name:16} not traced: {type(error).__name__}: {str(error).splitlines()[0][:110] if str(error) else ''}",
                flush=True,
            )
            continue
        done += result["share"] <= 0.01
        print(
            f"{name:16} {result['calls']:6d} {result['flops'] / 1e9:9.3f} {result['bytes'] / 1e6:9.1f} {result['seconds']:5.1f}  "
            f"{100 * result['share']:.2f} % {' '.join(result['uncounted'])}",
            flush=True,
        )
    print(f"{done} of {len(names)} architectures with at most 1 % of the bytes uncounted")


if __name__ == "__main__":
    main()
