"""What families of transformers do otherwise than Llama: one small rule per `model_type` of Hugging Face configurations.

A rule sees the fields of the file and changes the draft. Rules follow the classes of `transformers`, which the tests build.
"""

from __future__ import annotations

from collections.abc import Callable

from .architecture import HEAD_NORM, HEADS_NORM, WIDTH_NORM
from .draft import Draft
from .fields import MAX_SIZE, Fields

Rule = Callable[[Draft, Fields], None]
LAYERNORM, BIASED, UNBIASED = "layernorm", 2, 1


def windows(draft: Draft, fields: Fields, sliding: Callable[[int], bool], window: int | None = None) -> None:
    """Windows by `layer_types` where the file lists them, else by the rule of the family."""
    size = window or fields.optional("window")
    listed = fields.texts("layer_types", draft.depth)
    places = [listed[place] != "full_attention" if listed else sliding(place) for place in range(draft.depth)]
    draft.windows = [size if inside else None for inside in places]


# -- Llama and its relatives ---------------------------------------------------------------------------------------


def llama(draft: Draft, fields: Fields) -> None:
    draft.bias = draft.out_bias = fields.flag("bias")
    draft.mlp_bias = fields.flag("mlp_bias")


def mistral(draft: Draft, fields: Fields) -> None:
    windows(draft, fields, lambda place: True)


def qwen2(draft: Draft, fields: Fields) -> None:
    draft.bias = fields.flag("qkv_bias", True)
    qwen_windows(draft, fields)


def qwen3(draft: Draft, fields: Fields) -> None:
    draft.bias = draft.out_bias = fields.flag("bias")
    draft.head_norm = HEAD_NORM
    qwen_windows(draft, fields)


def qwen_windows(draft: Draft, fields: Fields) -> None:
    first = fields.size("max_window_layers", draft.depth, low=0)
    if fields.flag("use_sliding_window"):
        windows(draft, fields, lambda place: place >= first)
    else:
        fields.spelling("window")


def gemma(draft: Draft, fields: Fields) -> None:
    draft.activation = "gelu"
    draft.bias = draft.out_bias = fields.flag("bias")


def gemma2(draft: Draft, fields: Fields) -> None:
    gemma(draft, fields)
    draft.norms = 4
    windows(draft, fields, lambda place: place % 2 == 0)


def gemma3(draft: Draft, fields: Fields) -> None:
    gemma(draft, fields)
    draft.norms, draft.head_norm = 4, HEAD_NORM
    pattern = fields.size("sliding_window_pattern", 6)
    windows(draft, fields, lambda place: (place + 1) % pattern != 0)


def phi3(draft: Draft, fields: Fields) -> None:
    window = fields.optional("window")
    if window is not None and window < (draft.max_context or MAX_SIZE):
        windows(draft, fields, lambda place: True)


def olmo(draft: Draft, fields: Fields) -> None:
    draft.bias = draft.out_bias = fields.flag("bias")
    draft.norm, draft.norm_vectors = LAYERNORM, 0  # norms without learned values


def olmo2(draft: Draft, fields: Fields) -> None:
    draft.bias = draft.out_bias = fields.flag("bias")
    draft.head_norm = WIDTH_NORM


def olmo3(draft: Draft, fields: Fields) -> None:
    olmo2(draft, fields)
    windows(draft, fields, lambda place: (place + 1) % 4 != 0)


def glm(draft: Draft, fields: Fields) -> None:
    draft.bias = fields.flag("bias", True)


def glm4(draft: Draft, fields: Fields) -> None:
    draft.bias, draft.norms = fields.flag("bias", False), 4


def chatglm(draft: Draft, fields: Fields) -> None:
    draft.bias = fields.flag("bias")
    if fields.flag("multi_query_attention"):
        draft.kv_heads = fields.size("multi_query_group_num", 1)
    draft.tied = False


def smollm3(draft: Draft, fields: Fields) -> None:
    llama(draft, fields)
    unrotated(draft, fields)
    qwen_windows(draft, fields)


def unrotated(draft: Draft, fields: Fields) -> None:
    """`no_rope_layers` has a 1 for a layer that rotates; without it every fourth layer does not."""
    interval = fields.size("no_rope_layer_interval", 4)
    rotates = fields.sizes("no_rope_layers", draft.depth) or [
        int((place + 1) % interval != 0) for place in range(draft.depth)
    ]
    draft.unrotated = {place for place, rotated in enumerate(rotates) if not rotated}


def stablelm(draft: Draft, fields: Fields) -> None:
    draft.norm, draft.bias = LAYERNORM, fields.flag("bias")
    draft.parallel = fields.flag("use_parallel_residual")
    draft.norms = 1 if draft.parallel else 2
    draft.head_norm = HEADS_NORM if fields.flag("qk_layernorm") else ""


def nemotron(draft: Draft, fields: Fields) -> None:
    llama(draft, fields)
    draft.gated, draft.norm, draft.activation = False, LAYERNORM, "relu2"


def arcee(draft: Draft, fields: Fields) -> None:
    llama(draft, fields)
    draft.gated, draft.activation = False, "relu2"


def cohere(draft: Draft, fields: Fields) -> None:
    draft.bias = draft.out_bias = fields.flag("bias")
    draft.norm, draft.norm_vectors, draft.norms, draft.parallel = LAYERNORM, UNBIASED, 1, True
    draft.head_norm = HEADS_NORM if fields.flag("use_qk_norm") else ""


def cohere2(draft: Draft, fields: Fields) -> None:
    cohere(draft, fields)
    pattern = fields.size("sliding_window_pattern", 4)
    windows(draft, fields, lambda place: (place + 1) % pattern != 0)
    draft.unrotated = {place for place, window in enumerate(draft.windows) if window is None}


def seed_oss(draft: Draft, fields: Fields) -> None:
    draft.bias, draft.out_bias = fields.flag("bias", True), fields.flag("attention_out_bias")
    draft.mlp_bias = fields.flag("mlp_bias")


def exaone4(draft: Draft, fields: Fields) -> None:
    """A pattern of windows as a number, or as letters of which G sees everything; layers without a window do not rotate."""
    draft.head_norm = HEAD_NORM
    pattern = fields.raw("sliding_window_pattern", 0)
    if isinstance(pattern, str) and pattern:
        windows(draft, fields, lambda place: pattern[place % len(pattern)] != "G")
    else:
        step = fields.size("sliding_window_pattern", 0, low=0)
        windows(draft, fields, lambda place: step > 0 and (place + 1) % step != 0)
    if any(draft.windows):
        draft.unrotated = {place for place, window in enumerate(draft.windows) if window is None}


def normed_llama(draft: Draft, fields: Fields) -> None:
    llama(draft, fields)
    draft.head_norm = HEAD_NORM


def windowed_llama(draft: Draft, fields: Fields) -> None:
    llama(draft, fields)
    windows(draft, fields, lambda place: True)


def bitnet(draft: Draft, fields: Fields) -> None:
    llama(draft, fields)
    draft.gated = True
    draft.notes.append("the norms inside attention and MLP are not counted")


def baichuan(draft: Draft, fields: Fields) -> None:
    draft.rotary = draft.hidden < 5120  # the 13B models bias scores by distance instead


RULES: dict[str, Rule] = {
    "llama": llama, "yi": llama, "internlm2": llama, "internlm3": llama, "internlm": llama, "granite": llama, "aquila": llama, "helium": llama,
    "ernie4_5": llama, "exaone": llama, "xverse": llama, "minicpm": llama, "solar": llama, "cwm": windowed_llama, "exaone4": exaone4, "bitnet": bitnet,
    "hunyuan_v1_dense": normed_llama,
    "mistral": mistral, "ministral": mistral, "ministral3": mistral,
    "qwen2": qwen2, "qwen2_vl": qwen2, "qwen2_5_vl": qwen2, "qwen2_vl_text": qwen2, "qwen2_5_vl_text": qwen2, "qwen3": qwen3, "qwen3_vl_text": qwen3,
    "gemma": gemma, "gemma2": gemma2, "gemma3": gemma3, "gemma3_text": gemma3,
    "phi3": phi3, "olmo": olmo, "hf_olmo": olmo, "olmo2": olmo2, "olmo3": olmo3,
    "glm": glm, "glm4": glm4, "chatglm": chatglm, "smollm3": smollm3, "stablelm": stablelm, "stablelm_epoch": stablelm,
    "nemotron": nemotron, "arcee": arcee, "cohere": cohere, "cohere2": cohere2, "seed_oss": seed_oss, "baichuan": baichuan,
}  # fmt: skip

# Whether the head shares the embedding, where a file does not say.
TIED = frozenset({
    "gpt2", "gpt_bigcode", "gpt_neo", "opt", "bloom", "mpt", "falcon", "RefinedWebModel", "RefinedWeb", "gemma", "gemma2", "gemma3",
    "gemma3_text", "cohere", "cohere2", "starcoder2", "smollm3", "ernie4_5", "ernie4_5_moe",
})  # fmt: skip
# Sizes that files leave out because the class of the family has them as defaults.
DEFAULTS: dict[str, dict[str, int | None]] = {
    "gpt2": {"n_positions": 1024, "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12},
    "llama": {"intermediate_size": 11008}, "qwen2": {"intermediate_size": 22016}, "phi3": {"intermediate_size": 8192},
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "sliding_window": 4096, "vocab_size": 256000, "num_attention_heads": 8, "num_key_value_heads": 4},
    "gemma3_text": {
        "head_dim": 256, "sliding_window": 4096, "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
    },
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096, "intermediate_size": 14336},
    "mixtral": {"num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen3": {"head_dim": 128, "intermediate_size": 22016},
    "qwen3_moe": {"num_key_value_heads": 4},
    "gpt_neo": {"window_size": 256, "max_position_embeddings": 2048, "vocab_size": 50257},
    "glm4": {"head_dim": 128}, "glm": {"head_dim": 128},
    "cohere2": {"sliding_window": 4096},
    "deepseek_v2": {"n_shared_experts": 2, "q_lora_rank": 1536},
    "deepseek_v3": {"n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536},
    "glm4_moe": {"n_shared_experts": 1, "first_k_dense_replace": 1},
    "glm4_moe_lite": {"n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 768},
    "ernie4_5_moe": {"moe_num_shared_experts": 2, "moe_layer_start_index": 1}, "minimax_m2": {"head_dim": 128},
    "gpt_oss": {"head_dim": 64, "sliding_window": 128},
    "llama4_text": {"head_dim": 128, "attention_chunk_size": 8192},
    "bert": {"max_position_embeddings": 512, "vocab_size": 30522}, "distilbert": {"max_position_embeddings": 512, "vocab_size": 30522},
}  # fmt: skip
