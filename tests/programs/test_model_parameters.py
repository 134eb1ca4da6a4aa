"""Parameters of known models against published counts and against `transformers` modules; bytes of caches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ridgeline.programs.models.architecture import Architecture, Attention, Experts, Latent, Layer, Mlp
from ridgeline.programs.models.forward import device_parameters
from ridgeline.programs.models.load import architecture, entries, known
from ridgeline.programs.models.parameters import kv_bytes, kv_bytes_per_token, kv_values, parameters, weight_bytes
from ridgeline.programs.models.phase import Formats, decode, prefill
from ridgeline.programs.models.program import step_ops

DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
# Families whose code is in their repositories only, by the class that has the same tensors.
SAME_TENSORS = {"internlm2": "llama", "baichuan": "llama", "kimi_k2": "deepseek_v3"}


def tolerance(published: float) -> float:
    """Half of the last digit that a rounded count has, or 1 % where a card cuts digits off."""
    digits = len(f"{published:e}".partition("e")[0].rstrip("0").replace(".", ""))
    return max(0.5 * 10 ** (math.floor(math.log10(published)) - digits + 1), 0.01 * published)


@pytest.mark.parametrize("name", [name for name in known() if entries()[name].published is not None])
def test_the_count_is_the_published_one(name: str) -> None:
    item = entries()[name]
    total = parameters(architecture(name)).total + item.outside
    published = item.published or 0
    assert abs(total - published) <= (0 if isinstance(published, int) else tolerance(published))


def test_few_models_have_no_published_count() -> None:
    assert [name for name in known() if entries()[name].published is None] == ["7b", "gpt3-175b-one-layer", "gpt3-xl"]
    assert parameters(architecture("7b")).total == 7_000_000_000  # a textbook's 7B


def test_a_rounded_count_can_fail() -> None:
    assert tolerance(2.7e9) == 0.5e8
    assert tolerance(175e9) == 1.75e9


def shallow(name: str) -> dict[str, Any]:
    """A known configuration with few layers, enough for every kind of layer that it has."""
    config = {
        key: value for key, value in entries()[name].config.items() if key not in ("quantization_config", "torch_dtype")
    }
    depth = next(key for key in DEPTHS if key in config)
    config[depth] = min(config[depth], 4 if "first_k_dense_replace" in config else 2)
    if "attention_types" in config:
        config["attention_types"] = [[["global", "local"], 1]]
    return config


def builder(transformers: Any, model: Architecture) -> Any:
    if model.causal:
        return transformers.AutoModelForCausalLM
    return transformers.AutoModelForMaskedLM if model.head else transformers.AutoModel


FAMILIES = {(entries()[name].config["model_type"], *sorted(entries()[name].config)): name for name in known()}


# Switches and families that no known model has, over sizes that all families understand.
SIZES = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 80,
    "max_position_embeddings": 32, "pad_token_id": 0,
}  # fmt: skip
NULLS = ("sliding_window", "q_lora_rank")  # fields that null switches off
FURTHER: list[dict[str, Any]] = [
    {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "head_dim": 24},
    {"model_type": "mistral", "sliding_window": 8, "head_dim": 24},
    {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    {"model_type": "qwen3", "attention_bias": True, "tie_word_embeddings": True},
    {"model_type": "qwen2_moe", "qkv_bias": False, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 2, "shared_expert_intermediate_size": 40},
    {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "mlp_only_layers": [0, 3]},
    {"model_type": "gemma2", "attention_bias": True, "head_dim": 24},
    {"model_type": "gemma3_text", "attention_bias": True, "head_dim": 24, "sliding_window": 8},
    {"model_type": "cohere", "use_qk_norm": True, "attention_bias": True},
    {"model_type": "cohere2", "attention_bias": True, "sliding_window": 8},
    {"model_type": "stablelm", "use_qkv_bias": True, "qk_layernorm": True},
    {"model_type": "nemotron", "attention_bias": True, "mlp_bias": True, "head_dim": 16},
    {"model_type": "gpt_neox", "attention_bias": False, "use_parallel_residual": False, "tie_word_embeddings": True},
    {"model_type": "falcon", "bias": True, "alibi": True, "parallel_attn": False, "multi_query": False},
    {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    {"model_type": "gpt_bigcode", "multi_query": False, "n_positions": 32, "n_inner": 96, "intermediate_size": None},
    {"model_type": "opt", "enable_bias": False, "ffn_dim": 96, "word_embed_proj_dim": 32},
    {"model_type": "starcoder2", "use_bias": False, "sliding_window": None},
    {"model_type": "deepseek_v3", "attention_bias": True, "q_lora_rank": None, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 2},
    {"model_type": "deepseek_v2", "attention_bias": True, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12, "n_routed_experts": 4, "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1},
    {"model_type": "llama4_text", "head_dim": 24, "intermediate_size_mlp": 56, "interleave_moe_layer_step": 2, "num_local_experts": 4, "attention_bias": True},
    {"model_type": "granitemoe", "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True},
    {"model_type": "minimax_m2", "num_local_experts": 4, "num_experts_per_tok": 2},
    {"model_type": "ernie4_5_moe", "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24, "moe_layer_start_index": 1, "moe_layer_end_index": 2},
    {"model_type": "glm4_moe", "head_dim": 24, "attention_bias": True, "use_qk_norm": True, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
    {"model_type": "exaone4", "sliding_window": 8, "sliding_window_pattern": 2},
    {"model_type": "olmo2", "attention_bias": True},
    {"model_type": "olmo3", "sliding_window": 8},
    {"model_type": "seed_oss", "attention_bias": True, "attention_out_bias": True, "mlp_bias": True, "head_dim": 24},
    {"model_type": "hunyuan_v1_dense", "head_dim": 16},
    {"model_type": "arcee", "attention_bias": True, "mlp_bias": True},
    {"model_type": "helium", "head_dim": 16},
    {"model_type": "smollm3", "no_rope_layer_interval": 2},
]  # fmt: skip


@pytest.mark.needs_torch
@pytest.mark.parametrize("fields", FURTHER, ids=lambda fields: "-".join([fields["model_type"], *list(fields)[1:3]]))
def test_switches_of_families(fields: dict[str, Any]) -> None:
    check_against_transformers(SIZES | fields)


@pytest.mark.needs_torch
@pytest.mark.parametrize("name", sorted(FAMILIES.values()))
def test_transformers_allocates_as_much(name: str) -> None:
    """One known model per set of fields; all of them at their known depths: benchmarks/model_parameters.py."""
    check_against_transformers(shallow(name))


def check_against_transformers(fields: dict[str, Any]) -> None:
    """Parameters, widths of the cache and number of windows equal those of modules built on the meta device."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from transformers.initialization import no_init_weights

    from ridgeline.programs.models.hf import read_config

    ours = read_config(fields)
    fields = {key: value for key, value in fields.items() if key in NULLS or value is not None}
    model_type = fields.pop("model_type")
    config = transformers.AutoConfig.for_model(SAME_TENSORS.get(model_type, model_type), **fields)
    with torch.device("meta"), no_init_weights():
        model = builder(transformers, ours).from_config(config)
    model.tie_weights()
    buffers = (value for key, value in model.named_buffers() if key.endswith("e_score_correction_bias"))
    assert parameters(ours).total == sum(value.numel() for value in (*model.parameters(), *buffers))
    keys = [
        module
        for label, module in model.named_modules()
        if label.endswith((".k_proj", ".v_proj", "kv_a_proj_with_mqa"))
    ]
    if keys:  # what the projections make per token is what a cache keeps
        assert sum(layer.count * kv_values(layer) for layer in ours.layers) == sum(
            module.out_features for module in keys
        )
    types = getattr(config, "layer_types", None)
    if types:
        windowed = sum(layer.count for layer in ours.layers if layer.attention.window is not None)
        assert windowed == sum(kind != "full_attention" for kind in types)


# Encoders of images, whose parameters a published count includes.
SEEING: dict[str, dict[str, Any]] = {
    "gemma-3-27b": {
        "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
        "num_attention_heads": 16, "image_size": 896, "patch_size": 14, "vision_use_head": False,
    },
    "llama-4-scout": {
        "hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34, "num_attention_heads": 16, "image_size": 336, "patch_size": 14,
        "projector_input_dim": 4096, "projector_output_dim": 4096, "vision_output_dim": 4096,
    },
}  # fmt: skip


@pytest.mark.needs_torch
@pytest.mark.parametrize("name", SEEING)
def test_parameters_outside_the_language_model(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from transformers.initialization import no_init_weights

    fields = shallow(name)
    outer = fields["model_type"].removesuffix("_text")
    config = transformers.AutoConfig.for_model(outer, text_config=fields, vision_config=SEEING[name])
    with torch.device("meta"), no_init_weights():
        model = transformers.AutoModelForImageTextToText.from_config(config)
    outside = [value for key, value in model.named_parameters() if "language_model" not in key and "lm_head" not in key]
    assert sum(value.numel() for value in outside) == entries()[name].outside


# -- by hand ---------------------------------------------------------------------------------------------------------


def test_groups_of_llama_3_8b() -> None:
    """4096 hidden, 32 layers, 32 and 8 heads of 128, MLP of 14336, vocabulary of 128256."""
    counted = parameters(architecture("llama-3-8b"))
    assert counted.groups == {
        "embedding": 128256 * 4096,
        "attention": 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024),
        "mlp": 32 * 3 * 4096 * 14336,
        "router": 0,
        "norms": (2 * 32 + 1) * 4096,
        "head": 128256 * 4096,
    }
    assert counted.layers == (218112000,)
    assert counted.active == counted.total


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("mixtral-8x7b", 12.9e9),  # of the release notes
        ("deepseek-v3", 37e9),
        ("qwen3-30b-a3b", 3.3e9),
        ("qwen3-235b-a22b", 22e9),
        ("llama-4-scout", 17e9),
        ("olmoe-1b-7b", 1.3e9),
        ("gpt-oss-20b", 3.61e9 + 201088 * 2880),  # the card leaves the embedding out
        ("gpt-oss-120b", 5.13e9 + 201088 * 2880),
    ],
)  # fmt: skip
def test_active_parameters_are_those_of_model_cards(name: str, active: float) -> None:
    assert parameters(architecture(name)).active == pytest.approx(active, rel=0.03)


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("llama-2-7b", 2 * 32 * 32 * 128 * 2),  # 512 KiB: keys and values of every head
        ("llama-3-8b", 2 * 8 * 32 * 128 * 2),
        ("llama-3-70b", 2 * 8 * 80 * 128 * 2),
        ("falcon-7b", 2 * 1 * 32 * 64 * 2),
        ("deepseek-v3", (512 + 64) * 61 * 2),
        ("gpt-oss-120b", 2 * 8 * 64 * 36 * 2),
        ("bert-large", 0),
    ],
)  # fmt: skip
def test_bytes_of_the_cache_per_token(name: str, bytes_per_token: int) -> None:
    assert kv_bytes_per_token(architecture(name)) == bytes_per_token
    assert kv_bytes_per_token(architecture(name), "fp8") == bytes_per_token / 2


def test_windows_keep_no_more_than_they_see() -> None:
    gemma = architecture("gemma-3-27b")  # 10 of 62 layers see everything, the others 1024 tokens; 16 key heads of 128
    per_layer = 2 * 16 * 128 * 2
    assert kv_bytes(gemma, 512.0) == 512 * kv_bytes_per_token(gemma)
    assert kv_bytes(gemma, 8192.0) == per_layer * (10 * 8192 + 52 * 1024)
    grown = kv_bytes(gemma, np.array([1.0, 1024.0, 1025.0, 131072.0]))
    assert list(np.diff(grown) > 0) == [True] * 3
    assert kv_bytes(architecture("bert-base"), np.array([5.0])).tolist() == [0.0]


def test_weights_by_format() -> None:
    llama = architecture("llama-3-8b")
    counted = parameters(llama)
    matrices = counted.groups["attention"] + counted.groups["mlp"]
    assert weight_bytes(llama) == 2 * counted.total
    assert weight_bytes(llama, "int4_g128") == matrices * (4 + 16 / 128) / 8 + 2 * (counted.total - matrices)


@pytest.mark.parametrize(("name", "gibibytes"), [("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)])
def test_checkpoints_with_experts_in_mxfp4(name: str, gibibytes: float) -> None:
    """Sizes of the model card: experts in mxfp4, attention, embedding and head in bf16."""
    model = architecture(name)
    assert model.unquantized == ("attention",)
    assert weight_bytes(model, model.weights) / 2**30 == pytest.approx(gibibytes, abs=0.1)
    moved = [
        {op.name: op.work.bytes for op in step_ops(model, decode(1.0, 100.0), Formats(weights=weights))}
        for weights in ("bf16", "mxfp4")
    ]
    assert moved[0]["out"] == moved[1]["out"]
    assert moved[0]["experts"] > 3.5 * moved[1]["experts"]


@pytest.mark.parametrize("name", known())
def test_the_ops_of_a_step_hold_all_parameters(name: str) -> None:
    """Each op counts the weights that it reads: a third way to the same total."""
    model = architecture(name)
    ops = step_ops(model, decode(1.0, 64.0) if model.causal else prefill(1.0, 64.0))
    assert device_parameters(ops) == parameters(model).total


def test_every_term_of_a_small_model() -> None:
    """Hidden 8, vocabulary 10; sizes chosen so that no two terms are equal."""
    attention = Attention(4, 2, 3, bias=True, out_bias=True, head_norm="head", sinks=True)
    experts = Experts(5, 2, 7, shared=11, shared_gate=True, bias=True, router_bias=True)
    latent = Latent(4, 6, 5, nope_dim=3, rope_dim=2, v_dim=7, bias=True)
    layers = (Layer(attention, experts, norms=4), Layer(latent, Mlp(13, gated=False, bias=True), count=2))
    model = Architecture(
        "small", 8, 10, layers, norm="layernorm", positions=17, token_types=2, embedding_norm=True, head_bias=True
    )
    assert parameters(model).groups == {
        "embedding": 10 * 8 + 17 * 8 + 2 * 8,
        # q 12, k and v 6 each, out; a norm over 3 for q and k; 4 sinks | twice: ranks 6 and 5 with norms, 4 heads of 5, 10 and 7
        "attention": (8 * 12 + 12 + 2 * (8 * 6 + 6) + 12 * 8 + 8 + 2 * 3 + 4)
        + 2 * (8 * 6 + 6 + 6 + 6 * 20 + 8 * 7 + 7 + 5 + 5 * 4 * 10 + 28 * 8 + 8),
        "mlp": 5 * (3 * 8 * 7 + 2 * 7 + 8) + (3 * 8 * 11 + 2 * 11 + 8) + 8 + 2 * (2 * 8 * 13 + 13 + 8),
        "router": 8 * 5 + 5,
        "norms": 16 * (4 + 2 * 2 + 2),
        "head": 10 * 8 + 10,
    }
    assert parameters(model).idle == 3 * (3 * 8 * 7 + 2 * 7 + 8)
