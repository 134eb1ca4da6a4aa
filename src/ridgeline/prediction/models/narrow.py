"""Weights that are stored narrower than the arithmetic: whether reading fewer bytes pays for unpacking them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...core.dtypes import dtype
from .result import decode_step

if TYPE_CHECKING:
    from .result import ModelPrediction

MIN_LOSS = 1.02  # by unpacking, from which it is worth a note


def narrow_note(prediction: ModelPrediction) -> list[str]:
    """That decode would be faster with weights as wide as the arithmetic, where it would; for the same sequences at a time."""
    formats = prediction.formats
    if dtype(formats.weights).bits >= dtype(formats.activations).bits:
        return []
    wide = decode_step(
        prediction.architecture, prediction.machine, replace(formats, weights=formats.activations), prediction.layout, prediction.software,
        prediction.running, prediction.load.context, prediction.ceilings,
    )  # fmt: skip
    loss = float(np.max(np.asarray(prediction.decode.time) / np.asarray(wide.time)))
    if loss < MIN_LOSS:
        return []
    return [
        f"{formats.weights} weights make decode {loss:.2f}x slower than {formats.activations} ones at this batch: "
        "unpacking takes longer than it saves"
    ]
