"""A model by its name on a machine, in one call: what Python asks and the command line does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core.dtypes import dtype as dtype_row
from ...core.machine import Machine
from ...core.work import Array
from ...programs.models.architecture import Architecture
from ...programs.models.layout import Layout
from ...programs.models.load import architecture
from ...programs.models.phase import NARROW_BITS, Formats
from .result import Load, ModelPrediction, predict_model

DTYPE = "bf16"


def model(
    name: str | Path | Architecture,
    machine: Machine | str | Path,
    batch: Array = 1.0,
    prompt: Array = 2048.0,
    generate: Array = 256.0,
    dtype: str = DTYPE,
    weights: str | None = None,
    kv: str | None = None,
    software: str | None = None,
    static: bool = False,
    ceilings: str | None = None,
    **degrees: Any,
) -> ModelPrediction:
    """How a language model is served: time to the first token and per further one, throughput, memory.

    `name` is a known model or a Hugging Face `config.json`. `batch` sequences are served at a time, with prompts of `prompt`
    tokens and answers of `generate`; arrays give arrays. `dtype` is the format of arithmetic, `weights` and `kv` those that
    weights and cache are stored in. `tp`, `pp`, `dp`, `ep`, `cp` split the model over devices.
    """
    described = name if isinstance(name, Architecture) else architecture(str(name))
    formats = formats_for(dtype, weights, kv)
    return predict_model(
        described, machine, Load(batch, prompt, generate, static), formats, Layout(**degrees), software, ceilings
    )


def formats_for(dtype: str = DTYPE, weights: str | None = None, kv: str | None = None) -> Formats:
    """Weights as the arithmetic unless asked otherwise; the cache too, but in no less than 16 bit."""
    arithmetic = dtype_row(dtype)
    cache = kv or (arithmetic.name if arithmetic.bits >= NARROW_BITS else DTYPE)
    return Formats(dtype_row(weights).name if weights else arithmetic.name, arithmetic.name, dtype_row(cache).name)
