"""Rules of families after GPT-2 and BERT, as in `families`: layer norms, biases, MLPs without a gate, learned positions."""

from __future__ import annotations

from .draft import Draft
from .families import BIASED, LAYERNORM, UNBIASED, Rule, windows
from .fields import Fields


def learned_positions(draft: Draft, fields: Fields, offset: int = 0) -> None:
    """A table of positions instead of rotation."""
    draft.positions, draft.rotary = fields.size("context") + offset, False


def plain_mlp(draft: Draft, activation: str = "gelu") -> None:
    """One matrix up and one down with biases, and layer norms with biases: as GPT-2 has them."""
    draft.gated, draft.mlp_bias, draft.norm = False, True, LAYERNORM
    draft.activation = draft.activation if draft.activation != "silu" else activation
    draft.kv_heads = draft.heads  # few of these families group queries


# -- decoders after GPT-2 ------------------------------------------------------------------------------------------


def gpt2(draft: Draft, fields: Fields) -> None:
    plain_mlp(draft)
    learned_positions(draft, fields)
    draft.bias = draft.out_bias = True


def gpt_bigcode(draft: Draft, fields: Fields) -> None:
    gpt2(draft, fields)
    if fields.flag("multi_query", True):
        draft.kv_heads = 1


def gpt_neo(draft: Draft, fields: Fields) -> None:
    plain_mlp(draft)
    learned_positions(draft, fields)
    draft.out_bias = True
    kinds: list[str] = []
    for entry in fields.door.items(
        fields.raw("attention_types", [[["global", "local"], draft.depth // 2]]), "attention_types"
    ):
        pair = fields.door.items(entry, "attention_types")
        times = fields.door.number(pair[1] if len(pair) == 2 else None, "attention_types", 1, draft.depth, whole=True)
        kinds += list(fields.door.texts(pair[0] if pair else None, "attention_types"))[: draft.depth] * int(times)
    window = fields.optional("window")
    if len(kinds) != draft.depth:
        fields.door.complain("attention_types", f"lists {len(kinds)} layers of {draft.depth}")
        return
    draft.windows = [window if kind == "local" else None for kind in kinds]


def gpt_neox(draft: Draft, fields: Fields) -> None:
    plain_mlp(draft)
    draft.bias = draft.out_bias = fields.flag("bias", True)
    draft.parallel = fields.flag("use_parallel_residual", True)


def gptj(draft: Draft, fields: Fields) -> None:
    plain_mlp(draft)
    draft.parallel, draft.norms, draft.head_bias = True, 1, True


def phi(draft: Draft, fields: Fields) -> None:
    gptj(draft, fields)
    draft.kv_heads = fields.size("kv_heads", draft.heads)
    draft.bias = draft.out_bias = True


def opt(draft: Draft, fields: Fields) -> None:
    """Positions start at 2, so the table has 2 rows more; the 350M model norms after its blocks and embeds in 512 dimensions."""
    plain_mlp(draft, "relu")
    learned_positions(draft, fields, offset=2)
    draft.activation = fields.text("activation", "relu")
    draft.bias = draft.out_bias = draft.mlp_bias = fields.flag("enable_bias", True)
    draft.embedding_width = fields.size("word_embed_proj_dim", draft.hidden)
    draft.final_norm = fields.flag("do_layer_norm_before", True) and not fields.flag("_remove_final_layer_norm")


def bloom(draft: Draft, fields: Fields) -> None:
    plain_mlp(draft)
    draft.inter, draft.bias, draft.out_bias, draft.rotary, draft.embedding_norm = (
        4 * draft.hidden,
        True,
        True,
        False,
        True,
    )


def mpt(draft: Draft, fields: Fields) -> None:
    biased = not fields.flag("no_bias", True)
    plain_mlp(draft)
    draft.mlp_bias = draft.bias = draft.out_bias = biased
    draft.norm_vectors = BIASED if biased else UNBIASED
    draft.inter = fields.size("expansion_ratio", 4) * draft.hidden
    inner = fields.inner("attn_config")
    draft.kv_heads = inner.size("kv_heads", draft.heads)
    if inner.flag("alibi", True):
        fields.flag("learned_pos_emb")
        draft.rotary = False
    else:
        learned_positions(draft, fields)


def falcon(draft: Draft, fields: Fields) -> None:
    """Three generations: multi-query (7B), grouped queries with a norm for attention and one for the MLP (40B, 180B), and
    sequential blocks with biases (RW)."""
    plain_mlp(draft)
    draft.inter = fields.size("ffn_hidden_size", 4 * draft.hidden)
    biased, newer = fields.flag("bias"), fields.flag("new_decoder_architecture")
    single = fields.flag("multi_query", True)
    draft.bias = draft.out_bias = draft.mlp_bias = biased
    draft.rotary = not fields.flag("alibi")
    draft.parallel = newer or fields.flag("parallel_attn", True)
    if newer:
        draft.norms = fields.size("num_ln_in_parallel_attn", 2)
        draft.kv_heads = fields.size("kv_heads", draft.heads)
    else:
        draft.norms = 1 if draft.parallel else 2
        draft.kv_heads = 1 if single else draft.heads


def starcoder2(draft: Draft, fields: Fields) -> None:
    plain_mlp(draft)
    draft.kv_heads = fields.size("kv_heads", draft.heads)
    draft.bias = draft.out_bias = draft.mlp_bias = fields.flag("bias", True)
    windows(draft, fields, lambda place: True)


# -- encoders ------------------------------------------------------------------------------------------------------


def bert(draft: Draft, fields: Fields) -> None:
    plain_mlp(draft)
    learned_positions(draft, fields)
    draft.bias = draft.out_bias = True
    draft.causal, draft.head, draft.final_norm, draft.embedding_norm = False, False, False, True
    draft.token_types, draft.pooler = fields.size("type_vocab_size", 2, low=0), True
    masked_head(draft, fields)


def distilbert(draft: Draft, fields: Fields) -> None:
    bert(draft, fields)
    draft.token_types, draft.pooler = 0, False


def masked_head(draft: Draft, fields: Fields) -> None:
    """A head over every token where `architectures` has a class with one, as the files of encoders usually have."""
    listed = fields.door.texts(fields.raw("architectures", []), "architectures")
    if any(name.endswith(("ForMaskedLM", "LMHeadModel")) for name in listed):
        draft.head, draft.head_transform, draft.head_bias, draft.pooler = True, True, True, False
        draft.tied = fields.flag("tied", True)
    else:
        draft.notes.append("counted as the encoder, without a head")


OLDER_RULES: dict[str, Rule] = {
    "gpt2": gpt2, "gpt_bigcode": gpt_bigcode, "gpt_neo": gpt_neo, "gpt_neox": gpt_neox, "gptj": gptj, "codegen": gptj, "opt": opt,
    "bloom": bloom, "mpt": mpt, "falcon": falcon, "RefinedWebModel": falcon, "RefinedWeb": falcon, "starcoder2": starcoder2,
    "phi": phi, "phi-msft": phi, "bert": bert, "roberta": bert, "xlm-roberta": bert, "camembert": bert, "distilbert": distilbert,
}  # fmt: skip
