"""Serving: what a request waits for its first token, and for each further one, while others are served with it.

With B requests at a time, prompts of S tokens and G tokens generated, in a steady state:

    decode step   all B sequences get a token: device time of the step, and the host work that nothing hides
    prefill       the prompt of one request, in steps of at most `chunk` tokens
    TPOT          decode + (B - 1) / G x prefill: while a request gets its G tokens, each of the others begins anew once
    TTFT          the software's own delay + prefill x (1 + wait): prompts that arrive together are read together
    tokens/s      B G / (TTFT + (G - 1) TPOT)

A static batch reads all prompts first and then decodes: TTFT is the prefill of all of them, TPOT the decode step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...core.work import Array
from .software import Software

if TYPE_CHECKING:
    from .result import Load


@dataclass(frozen=True)
class Serving:
    """All times in seconds, per request."""

    ttft: Array
    tpot: Array
    tokens_per_s: Array  # of all requests together, over all devices of one replica

    DOCUMENT: ClassVar = ("ttft", "tpot", "tokens_per_s")


def serve(software: Software, prefill: Array, decode: Array, load: Load) -> Serving:
    """From the time of one prompt and of one decode step, host work included."""
    batch, prefill, generate = np.asarray(load.batch, dtype=np.float64), np.asarray(prefill), load.generate
    if load.static:
        ttft, tpot = software.request + prefill * batch, np.asarray(decode)
    else:
        others = np.maximum(batch - 1, 0)
        tpot = decode + others / np.maximum(generate, 1) * prefill
        ttft = software.request + prefill * (1 + np.where(others > 0, software.first, 0.0) + software.wait * others)
    total = ttft + np.maximum(np.asarray(generate) - 1, 0) * tpot
    return Serving(ttft, tpot, batch * generate / total)
