"""Serving: what a request waits for its first token, and for each further one, while others are served with it.

With B requests at a time, prompts of S tokens and G tokens generated, in a steady state:

    decode step   all B sequences get a token: device time of the step, and the host work that nothing hides
    prefill       the prompt of one request, in steps of at most `chunk` tokens
    TTFT          the software's own delay + prefill x (1 + w): w prompts of others are read before it, those that arrive together
    TPOT          decode + (B - 1 - w) / (G - 1) x prefill: while a request is served, each of the others begins anew once
    tokens/s      B G / (TTFT + (G - 1) TPOT)

So every prompt is read once, whatever w: B requests take B prefills and G - 1 decode steps. An answer of one token has no further ones,
so that all other prompts are read before it (w = B - 1).

A pipeline of p stages reads p prompts at a time, one in every stage, so that others' prompts take prefill / p each.

Where the memory holds the caches of K < B requests, K run at a time and take T = TTFT + (G - 1) TPOT each, so that K / T of them
end in a second. By Little's law the B requests, waiting ones included, stay B T / K: a request waits W = T (B / K - 1) for memory.
Where all memory of a request is set aside before it starts, TTFT has all of W. Where pages are taken as the answer grows, a
request starts with those of its prompt and is set back later: TTFT has S / (S + G/2) of W, the cache of the prompt over the
mean one, and TPOT the rest.

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
    memory_wait: Array  # for memory, in TTFT and the TPOT of all tokens together

    DOCUMENT: ClassVar = ("ttft", "tpot", "tokens_per_s", "memory_wait")


def serve(
    software: Software, prefill: Array, decode: Array, load: Load, stages: int = 1, running: Array | None = None
) -> Serving:
    """From the time of one prompt and of one decode step of those that are `running` (all, if not given), host work included,
    over all stages of a pipeline."""
    batch, prefill, generate = np.asarray(load.batch, dtype=np.float64), np.asarray(prefill), load.generate
    running = batch if running is None else np.asarray(running)
    others, each = np.maximum(running - 1, 0), prefill / stages
    further = np.maximum(np.asarray(generate) - 1, 0)
    together = np.where(others > 0, software.first, 0.0) + software.wait * others
    ahead = others if load.static else np.where(further > 0, np.minimum(together, others), others)
    first = software.request + prefill + each * ahead
    tpot = decode + each * (others - ahead) / np.maximum(further, 1)
    service = first + further * tpot
    waits = service * (batch / running - 1)
    grows = (software.reserve < 1) & (further > 0)
    before = waits * np.where(grows, load.prompt / (load.prompt + software.reserve * np.asarray(generate)), 1.0)
    tpot = tpot + (waits - before) / np.maximum(further, 1)
    return Serving(first + before, tpot, running * generate / service, waits)
