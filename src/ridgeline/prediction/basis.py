"""What the time of a kernel rests on, in one sentence: whose timings, of which library, how well they hold, how far from them a case lies."""

from __future__ import annotations

import re

import numpy as np

from ..core.families.attention import WINDOW
from ..core.units import enumerated
from ..machines.libraries import known
from . import timed_sizes
from .coefficients import CALIBRATED, Selected
from .kernel_times import KernelTime

AS_CAUSAL = "the kernel without a window is expected to take less, so the time is that of the causal one"
# of layers in fp8, as serving engines run them
QUANTIZING = "the timings include quantizing the activations from 16 bits"
ROTATING = "the timings include rotating queries and keys and writing the cache, as serving engines do"
FUSED = "serving engines have faster, fused kernels: --backend vllm"
NOTABLE_DISTANCE = 1.05  # from the timed sizes, as a factor, beyond which a prediction is called extrapolated
FEW_QUERIES, SPLIT_BELOW = (
    "below 128 queries FlexAttention splits the keys: of four such timings each took 3 to 78 times as long",
    128.0,
)
PYTORCH = " of PyTorch"
TIMED_LIBRARIES = re.compile(r"\b(sglang|torch|trtllm|vllm)(?=-\d)|\bPyTorch\b")  # in the source of coefficients


def libraries(selected: Selected) -> str:
    """The libraries whose kernels were timed for the default path, ` of SGLang and vLLM`; empty where a backend says it, or none is known."""
    if selected.key.backend:
        return ""
    titles = sorted({known(match[1] or "").title for match in TIMED_LIBRARIES.finditer(selected.fitted.source)})
    return f" of {enumerated(titles)}" if titles else ""


def basis(kernel: KernelTime, distance: float) -> str:
    """What the coefficients rest on, for a case this far beyond the sizes that were timed."""
    fitted, key = kernel.selected.fitted, kernel.selected.key
    beyond = (
        f", extrapolated up to {distance:,.{distance < 100:d}f}x beyond the timed sizes"
        if distance > NOTABLE_DISTANCE
        else ""
    )
    if key.family == "gemm" and fitted.coefficients.get("prepare"):
        beyond += f"; {QUANTIZING}"
    if key.family == "attention" and fitted.coefficients.get("prepare"):
        beyond += f"; {ROTATING}"
    if key.op == WINDOW and kernel.as_causal:
        beyond += f"; {AS_CAUSAL}"
    if key.op == WINDOW and not kernel.asked.backend and np.any(np.asarray(kernel.kernel.sizes["q"]) < SPLIT_BELOW):
        beyond += f"; {FEW_QUERIES}"
    if key.family == "moe" and libraries(kernel.selected) == PYTORCH:
        beyond += f"; {FUSED}"
    timings = f"{fitted.cases} timings{libraries(kernel.selected)}"
    if kernel.selected.label == CALIBRATED and timed_sizes.near(key.family, distance):
        return f"calibrated ({key}, {timings}): {fitted.errors}{beyond}"
    if fitted.borrowed:
        return f"transferred from other machines ({key}, {timings}): {fitted.errors}{beyond}"
    return f"transferred from {key} ({timings} on this machine){beyond}"
