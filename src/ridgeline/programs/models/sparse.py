"""Rules of families with experts or latent attention, as in `families`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .architecture import HEAD_NORM, PLAIN_NORM, WIDTH_NORM, Experts, Latent
from .draft import Draft
from .families import LAYERNORM, UNBIASED, Rule, llama, mistral, qwen2, qwen3, unrotated, windows
from .fields import Fields


def experts(draft: Draft, fields: Fields, inter: int | None = None, shared: int = 0) -> Experts:
    """The experts of the file; their width is that of an MLP where it gives no other."""
    count = fields.size("experts")
    topk = fields.size("topk", 1)
    if topk > count:
        fields.door.complain(fields.spelling("topk"), f"is {topk}, more than the {count} experts")
    width = fields.size("expert_inter", inter or draft.inter)
    draft.experts = Experts(count, topk, width, shared, activation=draft.activation)
    return draft.experts


def alike(rule: Rule) -> Rule:
    """A family that differs from another in having experts."""

    def with_experts(draft: Draft, fields: Fields) -> None:
        rule(draft, fields)
        experts(draft, fields)

    return with_experts


def qwen_moe(rule: Rule, gate: bool) -> Rule:
    """Every `decoder_sparse_step`-th layer has experts, but for `mlp_only_layers`; the shared expert of Qwen 2 has a gate."""

    def with_experts(draft: Draft, fields: Fields) -> None:
        rule(draft, fields)
        shared = fields.size("shared_inter", 0, low=0) if gate else 0
        draft.experts = replace(experts(draft, fields, shared=shared), shared_gate=shared > 0)
        step = fields.size("decoder_sparse_step", 1)
        plain = set(fields.sizes("mlp_only_layers") or ())
        draft.dense = {place for place in range(draft.depth) if place in plain or (place + 1) % step}

    return with_experts


def llama4(draft: Draft, fields: Fields) -> None:
    """A shared expert as wide as the routed ones; dense layers are `intermediate_size_mlp` wide. Layers that rotate see chunks."""
    draft.bias = draft.out_bias = fields.flag("bias")
    experts(draft, fields, shared=draft.inter)
    draft.inter = fields.size("intermediate_size_mlp", draft.inter)
    step = fields.size("interleave_moe_layer_step", 1)
    sparse = fields.sizes("moe_layers")
    sparse = list(range(step - 1, draft.depth, step)) if sparse is None else sparse
    draft.dense = set(range(draft.depth)) - set(sparse)
    unrotated(draft, fields)
    draft.head_norm = PLAIN_NORM if fields.flag("use_qk_norm", True) else ""
    draft.chunked = True
    chunk = fields.optional("attention_chunk_size")
    windows(draft, fields, lambda place: chunk is not None and place not in draft.unrotated, chunk)


def gpt_oss(draft: Draft, fields: Fields) -> None:
    draft.bias = draft.out_bias = fields.flag("bias", True)
    draft.sinks = True
    draft.experts = replace(experts(draft, fields), bias=True, router_bias=True)
    windows(draft, fields, lambda place: place % 2 == 0)


def latent(draft: Draft, fields: Fields) -> None:
    draft.latent = Latent(
        draft.heads,
        fields.optional("q_lora_rank"),
        fields.size("kv_lora_rank"),
        fields.size("qk_nope_head_dim"),
        fields.size("qk_rope_head_dim"),
        fields.size("v_head_dim"),
        fields.flag("bias"),
    )


def deepseek(draft: Draft, fields: Fields) -> None:
    """Latent attention; experts after the first dense layers, with shared experts as one MLP of their total width."""
    latent(draft, fields)
    fields.spelling("head_dim")
    late_experts(draft, fields)


def deepseek_v3(draft: Draft, fields: Fields) -> None:
    deepseek(draft, fields)
    balanced(draft)


def balanced(draft: Draft) -> None:
    """The router adds a vector that keeps experts equally busy; checkpoints have it, `transformers` counts it as a buffer."""
    if draft.experts is not None:
        draft.experts = replace(draft.experts, router_bias=True)


def late_experts(draft: Draft, fields: Fields) -> None:
    width = fields.size("expert_inter", draft.inter)
    experts(draft, fields, shared=fields.size("shared_count", 0, low=0) * width)
    step = fields.size("moe_layer_freq", 1) if not isinstance(fields.raw("moe_layer_freq"), list) else 1
    first = fields.size("dense_layers", 0, low=0)
    kinds = fields.texts("mlp_layer_types", draft.depth)
    draft.dense = {place for place in range(draft.depth) if place < first or place % step}
    if kinds:
        draft.dense = {place for place, kind in enumerate(kinds) if kind == "dense"}
    ahead = fields.size("num_nextn_predict_layers", 0, low=0)
    if ahead:
        draft.notes.append(f"{ahead} layer{'s' * (ahead > 1)} for predicting further tokens ahead left out")


def sparse_latent(draft: Draft, fields: Fields) -> None:
    deepseek_v3(draft, fields)
    for name in ("index_n_heads", "index_head_dim", "index_topk"):
        fields.spelling(name)
    draft.notes.append("the indexer of sparse attention is not counted; attention is taken as dense")


def glm4_moe(draft: Draft, fields: Fields) -> None:
    draft.bias = fields.flag("bias")
    draft.head_norm = HEAD_NORM if fields.flag("use_qk_norm") else ""
    late_experts(draft, fields)
    balanced(draft)


def minimax_m2(draft: Draft, fields: Fields) -> None:
    draft.head_norm = WIDTH_NORM
    experts(draft, fields)
    balanced(draft)


def ernie_moe(draft: Draft, fields: Fields) -> None:
    """Experts in every `moe_layer_interval`-th layer from a first to a last one."""
    llama(draft, fields)
    draft.mlp_bias = draft.bias
    late_experts(draft, fields)
    step, first = fields.size("moe_layer_interval", 1), fields.size("dense_layers", 1, low=0)
    last = fields.size("moe_layer_end_index", -1, low=-1)
    last = draft.depth - 1 if last < 0 else last
    draft.dense = {place for place in range(draft.depth) if not first <= place <= last or (place + 1) % step}
    balanced(draft)


def olmoe(draft: Draft, fields: Fields) -> None:
    draft.bias = draft.out_bias = fields.flag("bias")
    draft.head_norm = WIDTH_NORM
    experts(draft, fields)


def phimoe(draft: Draft, fields: Fields) -> None:
    draft.bias = draft.out_bias = fields.flag("bias")
    draft.norm, draft.head_bias = LAYERNORM, fields.flag("lm_head_bias")
    experts(draft, fields)
    window = fields.optional("window")
    if window is not None and window < (draft.max_context or 0):
        windows(draft, fields, lambda place: True)


def dbrx(draft: Draft, fields: Fields) -> None:
    draft.norm, draft.norm_vectors = LAYERNORM, UNBIASED
    draft.kv_heads = fields.inner("attn_config").size("kv_heads", draft.heads)
    inner = fields.inner("ffn_config")
    draft.inter = inner.size("inter")
    experts(draft, inner)


SPARSE_RULES: dict[str, Callable[[Draft, Fields], None]] = {
    "mixtral": alike(mistral), "granitemoe": alike(llama), "qwen2_moe": qwen_moe(qwen2, gate=True), "qwen3_moe": qwen_moe(qwen3, gate=False),
    "qwen3_vl_moe_text": qwen_moe(qwen3, gate=False), "llama4": llama4, "llama4_text": llama4, "gpt_oss": gpt_oss, "deepseek_v2": deepseek,
    "deepseek_v3": deepseek_v3, "kimi_k2": deepseek_v3, "deepseek_v32": sparse_latent, "glm_moe_dsa": sparse_latent, "glm4_moe": glm4_moe, "glm4_moe_lite": deepseek_v3, "olmoe": olmoe,
    "phimoe": phimoe, "minimax_m2": minimax_m2, "ernie4_5_moe": ernie_moe, "dbrx": dbrx,
}  # fmt: skip
