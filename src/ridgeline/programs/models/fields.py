"""The fields of a model's configuration by what they mean, whatever a family calls them; every value is checked as it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...core.intake import Door, clean
from ...core.intake.door import shown

# What Hugging Face configurations call a size, the usual name first.
ALIASES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "n_embed", "model_dim"),
    "depth": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "kv_n_heads", "num_query_groups"),
    "head_dim": ("head_dim", "kv_channels", "attention_head_size", "head_size", "d_head"),
    "inter": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim", "d_ff", "inner_dim"),
    "vocab": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "context": ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "n_ctx", "seq_length"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "topk": ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk", "moe_k"),
    "expert_inter": ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size"),
    "shared_inter": ("shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size"),
    "shared_count": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "dense_layers": ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"),
    "window": ("sliding_window", "sliding_window_size", "window_size"),
    "activation": ("hidden_act", "hidden_activation", "activation_function", "activation", "act_fn"),
    "tied": ("tie_word_embeddings", "tie_embeddings", "weight_tying"),
    "bias": ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "use_bias", "bias"),
    "mlp_bias": ("mlp_bias", "use_mlp_bias"),
    "dtype": ("torch_dtype", "dtype"),
}  # fmt: skip

# Fields that change no size: numerics, dropout, tokens, generation, bookkeeping, names of implementations.
HARMLESS = re.compile(
    r".*(token_id|_tokens?|_eps|epsilon|dropout|pdrop|_drop|prob|theta|factor|scaling|scale|multiplier|softcapping|softcap"
    r"|initializer|init_range|_range|init_std|init_method|_coef|_coeff|_version|implementation|label.*|cache.*|checkpointing)"
    r"|architectures|model_type|auto_map|torch_dtype|dtype|transformers_version|_name_or_path|task_specific_params|summary_.*|rope_.*"
    r"|rotary_.*|partial_rotary_factor|pretraining_tp|slow_but_exact|gradient_.*|output_.*|return_dict|.*_act|.*activation.*|quantization_config"
    r"|problem_type|classifier.*|norm_topk_prob|router_aux_loss.*|router_jitter.*|routed_scaling_factor|scoring_func|topk_method|topk_group|n_group"
    r"|aux_loss.*|seq_aux|clip_qkv|max_window_layers|layer_types|is_decoder|is_encoder_decoder|add_cross_attention|cross_attention.*"
    r"|.*_attn|attn_.*|position_embedding_type|embd_pdrop|finetuning_task|prefix|pruned_heads|tokenizer_class|type_vocab_size|unk_.*|z_loss.*"
    r"|max_length|min_length|do_sample|num_beams|temperature|top_k|top_p|num_return_sequences|chunk_size_feed_forward|tf_legacy_loss|use_bfloat16"
    r"|torchscript|language|transformers\.js_config|original_max_position_embeddings|long_mscale|short_mscale|query_pre_attn_scalar|.*_temperature_tuning"
    r"|floor_scale|qk_head_dim|.*in_fp32|scale_attn_.*|embedding_fraction|init_device|norm_type|attention_layers|_sliding_window_pattern|attn_scale|gpt_ffn_hidden_size|ep_size|layer_norm_elementwise_affine|_remove_final_layer_norm|.*use_sdpa|.*use_flash.*|residual_in_fp32"
)  # fmt: skip
MAX_SIZE = 1e9  # of any width, vocabulary or context
MAX_DEPTH = 10_000
MAX_NAMED = 12  # unknown fields in a note
MISSING = object()


class Fields:
    """The values of a configuration under the names of ALIASES or their own, with a record of what was read."""

    def __init__(self, table: Mapping[str, Any], door: Door, defaults: Mapping[str, Any]) -> None:
        self.table = dict(table)
        self.door = door
        self.defaults = defaults
        self.read: set[str] = set()
        self.defaulted: list[str] = []

    def spelling(self, name: str) -> str:
        """The field of the file that holds a quantity; the usual name where there is none."""
        names = ALIASES.get(name, (name,))
        self.read.update(names)
        given = [each for each in names if self.table.get(each) is not None]
        return next(iter(given), next((each for each in names if each in self.table), names[0]))

    def raw(self, name: str, default: Any = None) -> Any:
        """A value as it is; null is None and not the default. What the family's class would take replaces a missing one."""
        field = self.spelling(name)
        if field in self.table:
            return self.table[field]
        for each in ALIASES.get(name, (name,)):
            if each in self.defaults:
                self.defaulted.append(each)
                return self.defaults[each]
        return default

    def size(self, name: str, default: int | None = None, low: int = 1, high: float = MAX_SIZE) -> int:
        """A whole number; without a default it must be there."""
        value = self.raw(name)
        if value is None:
            if default is not None:
                return default
            others = ALIASES.get(name, (name,))[1:]
            also = f" (or {', '.join(others)})" if others else ""
            self.door.complain(self.spelling(name), f"is missing{also}")
            return low
        return int(self.door.number(value, self.spelling(name), low, high, whole=True))

    def optional(self, name: str, low: int = 1, high: float = MAX_SIZE) -> int | None:
        value = self.raw(name)
        return None if value is None else int(self.door.number(value, self.spelling(name), low, high, whole=True))

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw(name, default)
        if value is None:
            return default
        if not isinstance(value, bool | int) or value not in (0, 1):
            self.door.complain(self.spelling(name), f"is {shown(value)}; it is true or false")
            return default
        return bool(value)

    def text(self, name: str, default: str = "") -> str:
        value = self.raw(name)
        if isinstance(value, Mapping | list):
            return default
        return self.door.text(value, self.spelling(name)) or default

    def inner(self, name: str) -> Fields:
        """The fields of a table inside this one."""
        return Fields(self.door.table(self.raw(name), name), self.door, {})

    def sizes(self, name: str, length: int | None = None) -> list[int] | None:
        """A list of whole numbers, or None; a list that is not `length` long is complained of."""
        value = self.raw(name)
        if value is None:
            return None
        numbers = self.door.numbers(value, name, 0, MAX_SIZE)
        if length is not None and len(numbers) != length:
            self.door.complain(name, f"has {len(numbers)} entries for {length} layers")
        return [int(number) for number in numbers]

    def texts(self, name: str, length: int) -> list[str] | None:
        """A list of a text per layer, or None."""
        value = self.raw(name)
        if value is None:
            return None
        listed = list(self.door.texts(value, name))
        if len(listed) != length:
            self.door.complain(name, f"has {len(listed)} entries for {length} layers")
            return None
        return listed

    def unread(self) -> list[str]:
        """Fields that nothing used and that could change a size: `name=value`."""
        names = [name for name in sorted(self.table) if name not in self.read and not HARMLESS.fullmatch(name)]
        listed = [f"{clean(name, 60)}={shown(self.table[name])}" for name in names if _matters(self.table[name])]
        more = [f"and {len(listed) - MAX_NAMED} more"] if len(listed) > MAX_NAMED else []
        return listed[:MAX_NAMED] + more


def _matters(value: Any) -> bool:
    """Null, false, empty values and fractions change no size."""
    return bool(value) and not (isinstance(value, float) and value != int(value if abs(value) < MAX_SIZE else 0))
