"""The format that published weights are stored in, from `torch_dtype` and `quantization_config` of a configuration."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import ALIASES, TABLE, dtype
from ...core.errors import InputError
from ...core.intake import clean
from .fields import Fields

PUBLISHED = "published with weights in"  # how the sentence begins that names the format
BLOCK_NF4 = 64  # values that share a scale in bitsandbytes' 4-bit formats
SKIPPED = ("modules_to_not_convert", "ignore", "exclude_modules")  # lists of modules that are not quantized
BY_METHOD = {"fp8": "fp8_e4m3", "fbgemm_fp8": "fp8_e4m3", "mxfp4": "mxfp4", "nvfp4": "nvfp4"}


def weight_format(fields: Fields) -> tuple[str, tuple[str, ...], list[str]]:
    """The format of the matrices, the parts of layers that keep 16 bits, and what is to be said about both."""
    plain = fields.text("dtype", "bf16").lower().removeprefix("torch.")
    plain = ALIASES.get(plain, plain)
    plain = plain if plain in TABLE else "bf16"
    table = fields.raw("quantization_config")
    if not table:
        return plain, (), []
    inner = Fields(fields.door.table(table, "quantization_config"), fields.door, {})
    method = inner.text("quant_method", inner.text("quant_algo", "unnamed")).lower()
    name = _format(method, inner)
    try:
        stored = dtype(name).name
    except InputError:
        unknown = f"quantized by {clean(method, 40)}: the format of the weights is not known, {plain} is assumed"
        return plain, (), [unknown]
    skipped = next((value for name in SKIPPED if isinstance(value := inner.raw(name), list)), [])
    attention = any(isinstance(name, str) and "attn" in name for name in skipped)
    kept = [f"attention stays in {plain} in the published weights"] if attention else []
    by = "" if clean(method, 40) == stored else f" ({clean(method, 40)})"
    return stored, ("attention",) if attention else (), [f"{PUBLISHED} {stored}{by}", *kept]


def _format(method: str, inner: Fields) -> str:
    if method in BY_METHOD:
        return BY_METHOD[method]
    if method == "bitsandbytes":
        return f"int4_g{BLOCK_NF4}" if inner.flag("load_in_4bit") or inner.flag("_load_in_4bit") else "int8"
    if method in ("gptq", "awq", "autoround", "auto-round"):
        bits, group = inner.size("bits", 4), _whole(inner.raw("group_size"))
        zero = "z" if inner.flag("zero_point", method == "gptq" and not inner.flag("sym", True)) else ""
        return f"int{bits}" + (f"_g{group}{zero}" if group else "")
    if method in ("compressed-tensors", "modelopt") or inner.raw("quant_algo"):
        return _of_groups(inner)
    return ""


def _of_groups(inner: Fields) -> str:
    """The first of `config_groups`, whose weights have `num_bits`, `type` and `group_size`."""
    algorithm = inner.text("quant_algo").lower()
    if algorithm:
        return {"fp8": "fp8_e4m3", "nvfp4": "nvfp4", "w4a16_awq": "int4_g128z"}.get(algorithm, "")
    groups = inner.door.table(inner.raw("config_groups"), "config_groups")
    for group in groups.values():
        weights = Fields(
            inner.door.table(inner.door.table(group, "config_groups").get("weights"), "weights"), inner.door, {}
        )
        bits, size = weights.size("num_bits", 8), _whole(weights.raw("group_size"))
        if weights.text("type", "int") == "float":
            return {8: "fp8_e4m3", 4: "nvfp4"}.get(bits, "")
        return f"int{bits}" + (f"_g{size}" if size else "")
    return ""


def _whole(value: Any) -> int:
    """A group size; -1 and null are one group per channel, which adds nothing that counts."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**6 else 0
