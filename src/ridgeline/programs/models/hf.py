"""Architectures from the configurations that Hugging Face repositories hold as `config.json`; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.errors import InputError, first_line
from ...core.files import user_path
from ...core.intake import Door, clean
from ...core.intake.source import whole_text
from ...core.tabular import parse_json
from .architecture import Architecture
from .draft import Draft
from .families import DEFAULTS, LAYERNORM, RULES, TIED
from .fields import MAX_DEPTH, Fields
from .older_families import OLDER_RULES
from .quantized import weight_format
from .sparse import SPARSE_RULES, late_experts, latent

KNOWN_TYPES = RULES | OLDER_RULES | SPARSE_RULES
QUANTIZATION = "hf_quant_config.json"  # where checkpoints of TensorRT Model Optimizer say how they are stored
TEXT_PARTS = ("text_config", "llm_config", "language_config")  # the language model of one that also sees or hears
# Families that are not stacks of attention and MLP, by what they are.
OTHERS = {
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "xlstm"), "a recurrent model"),
    **dict.fromkeys(
        (
            "jamba", "bamba", "zamba", "zamba2", "falcon_h1", "nemotron_h", "granitemoehybrid", "recurrent_gemma", "lfm2", "lfm2_moe",
            "qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text", "kimi_linear", "minimax", "olmo_hybrid", "gemma3n", "gemma3n_text",
            "gemma4", "gemma4_text", "deepseek_v4", "longcat_flash", "zaya", "doge", "blt", "hrm_text", "inkling_text", "jetmoe", "cpmant",
        ), "a model with layers other than attention and MLP",
    ),
    **dict.fromkeys(("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "led", "whisper", "marian", "m2m_100", "switch_transformers"), "an encoder-decoder"),
    **dict.fromkeys(("albert", "deberta", "deberta-v2", "electra", "xlnet", "funnel", "longformer", "reformer", "modernbert"), "an encoder of another kind"),
    **dict.fromkeys(("vit", "deit", "swin", "convnext", "resnet", "clip", "dinov2", "beit", "siglip"), "an image model"),
}  # fmt: skip


def read_config(source: str | Path | Mapping[str, Any], name: str = "") -> Architecture:
    """The architecture of a configuration: a `config.json`, a folder that has it, or its fields as a dict.

    What is assumed, left out or not understood is in `notes`. SchemaError lists everything that is missing or wrong.
    """
    if isinstance(source, Mapping):
        return _architecture(source, name or "model", "configuration")
    path = user_path(source)
    path = path / "config.json" if path.is_dir() else path
    label = name or clean(path.resolve().parent.name if path.name == "config.json" else path.stem)
    document, beside = _document(path), path.with_name(QUANTIZATION)
    if isinstance(document, dict) and "quantization_config" not in document and beside.is_file():
        side = _document(beside)
        document["quantization_config"] = side.get("quantization") if isinstance(side, dict) else side
    return _architecture(document, label, clean(str(path)))


def _document(path: Path) -> Any:
    text = whole_text(path)
    try:
        return parse_json(text, nan=False)
    except RecursionError:
        raise InputError(f"'{clean(str(path))}' is not a model configuration: it is nested too deep") from None
    except ValueError as error:
        raise InputError(f"'{clean(str(path))}' is not a model configuration: not JSON ({first_line(error)})") from None


def _architecture(document: Any, name: str, where: str) -> Architecture:
    door = Door(where)
    table = door.table(document, "")
    door.close()
    table, remarks = _text_part(table, door)
    model_type = door.text(table.get("model_type"), "model_type")
    door.close()
    _refuse_others(model_type, table, where)
    fields = Fields(table, door, DEFAULTS.get(model_type, {}))
    fields.read.update(("model_type", *TEXT_PARTS))
    draft = _draft(fields, model_type)
    draft.notes += remarks
    if model_type in KNOWN_TYPES:
        KNOWN_TYPES[model_type](draft, fields)
    else:
        _generic(draft, fields, model_type)
    draft.weights, draft.unquantized, stored = weight_format(fields)
    _check(draft, fields)
    door.close()
    if draft.gated and draft.experts is None and fields.raw("inter") is None and not fields.raw("expert_inter"):
        draft.notes.append(f"intermediate_size is missing: {draft.inter} is assumed, four times the hidden size")
    draft.notes += stored
    if fields.defaulted:
        draft.notes.append(f"from the defaults of {model_type}: {', '.join(sorted(set(fields.defaulted)))}")
    unread = fields.unread()
    if unread:
        draft.notes.append(f"fields that are not understood and could change sizes: {', '.join(unread)}")
    return draft.architecture(name)


def _text_part(table: dict[str, Any], door: Door) -> tuple[dict[str, Any], list[str]]:
    """The language model of a multimodal configuration; what only the outer table says about it is kept."""
    for key in TEXT_PARTS:
        if not isinstance(table.get(key), Mapping):
            continue
        inner = door.table(table[key], key)
        outer = {
            each: table[each]
            for each in ("model_type", "tie_word_embeddings", "torch_dtype", "dtype", "quantization_config")
            if each in table
        }
        parts = sorted(each.removesuffix("_config") for each in table if each.endswith("_config") and each != key)
        others = [part for part in parts if part != "quantization"]
        without = f", without {', '.join(others)}" if others else ""
        return outer | inner, [f"the language model of `{key}`{clean(without, 100)}"]
    return table, []


def _refuse_others(model_type: str, table: Mapping[str, Any], where: str) -> None:
    kind = OTHERS.get(model_type) or ("an encoder-decoder" if table.get("is_encoder_decoder") is True else "")
    if kind:
        raise InputError(
            f"{where}: model_type '{clean(model_type, 60)}' is {kind}; only decoders and encoders of attention and MLP layers "
            "are counted from a configuration. `ridgeline trace` counts any PyTorch module"
        )


def _draft(fields: Fields, model_type: str) -> Draft:
    """The sizes that every family has, by alias; heads are as wide as they divide the hidden state, an MLP four times as wide."""
    hidden, heads = fields.size("hidden"), fields.size("heads")
    depth = fields.size("depth", high=MAX_DEPTH)
    head_dim = fields.optional("head_dim")
    stated = hidden > 1  # a size that is missing or wrong was complained about, and is 1 from there on
    if head_dim is None and stated and hidden % heads and "kv_lora_rank" not in fields.table:
        fields.door.complain(
            fields.spelling("hidden"),
            f"is {hidden}, no multiple of {heads} heads; give head_dim if heads are of another width",
        )
    inter = fields.optional("inter")
    return Draft(
        hidden,
        depth,
        heads,
        fields.size("vocab"),
        fields.size("kv_heads", heads),
        head_dim or max(hidden // heads, 1),
        inter or 4 * hidden,
        activation=activation(fields.text("activation", "silu")),
        tied=fields.flag("tied", model_type in TIED),
        max_context=fields.optional("context"),
    )


def activation(name: str) -> str:
    """The name of the op: variants of GELU are one, `swiglu` is its SiLU."""
    lower = name.lower()
    if lower in ("relu2", "relu_squared", "squared_relu"):
        return "relu2"
    if lower == "xielu":
        return "gelu"  # a function of each value, as expensive
    return next((op for op in ("gelu", "silu", "relu") if op in lower), "silu")


def _generic(draft: Draft, fields: Fields, model_type: str) -> None:
    """A decoder of a family that is not known: norms by the name of their epsilon, a gate with SiLU, biases by flags."""
    layernorm = any(name in fields.table for name in ("layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"))
    draft.norm = LAYERNORM if layernorm and "rms_norm_eps" not in fields.table else "rmsnorm"
    draft.gated = draft.activation == "silu"
    draft.bias = fields.flag("bias")
    draft.mlp_bias = fields.flag("mlp_bias", draft.bias and not draft.gated)
    draft.out_bias = draft.bias and not draft.gated
    window = fields.optional("window")
    if window is not None:
        draft.windows = [window] * draft.depth
    if fields.raw("kv_lora_rank") is not None:
        latent(draft, fields)
    if fields.raw("experts") is not None:
        late_experts(draft, fields)
    kind = f"model_type '{clean(model_type, 60)}' is not known" if model_type else "model_type is missing"
    mlp = "a gated MLP" if draft.gated else "an MLP without a gate"
    draft.notes.append(
        f"{kind}: read as a decoder with {draft.norm}, {mlp}, {'' if draft.bias else 'no '}biases, two norms per layer"
    )


def _check(draft: Draft, fields: Fields) -> None:
    if draft.latent is None and draft.heads % draft.kv_heads:
        fields.door.complain(
            fields.spelling("kv_heads"), f"is {draft.kv_heads}, which does not divide the {draft.heads} heads"
        )
