"""Speculative decoding: a draft model proposes tokens one by one, the target verifies all of them in one step.

With g drafted tokens, each accepted with probability a whatever came before, a step yields the accepted ones and one more of
the target: 1 + a + ... + a^g = (1 - a^(g+1)) / (1 - a) tokens on average (Leviathan, Kalman, Matias 2023, equation 1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.errors import InputError
from ...core.work import Array
from .architecture import Architecture
from .layout import Layout
from .model_op import ModelOp
from .phase import DECODE, Formats, Phase
from .program import DEFAULT_FORMATS, SINGLE_DEVICE, step_ops


def expected_tokens(acceptance: Array, drafted: Array) -> Array:
    """Tokens that one step of drafting and verifying yields on average; g + 1 where every draft is accepted."""
    rate = np.asarray(acceptance, dtype=np.float64)
    if not np.all((rate >= 0) & (rate <= 1)):
        raise InputError(f"the acceptance rate must be between 0 and 1, got {acceptance}")
    if not np.all(np.asarray(drafted) >= 0):
        raise InputError(f"the drafted tokens must be at least 0, got {drafted}")
    safe = np.where(rate < 1, rate, 0.0)
    tokens = np.where(rate < 1, (1 - safe ** (np.asarray(drafted) + 1)) / (1 - safe), np.asarray(drafted) + 1.0)
    return tokens if tokens.ndim else float(tokens)


def speculative_ops(
    target: Architecture,
    draft: Architecture,
    phase: Phase,
    drafted: int,
    formats: Formats = DEFAULT_FORMATS,
    layout: Layout = SINGLE_DEVICE,
    *,
    draft_formats: Formats | None = None,
    draft_layout: Layout | None = None,
    fused: bool = True,
) -> tuple[ModelOp, ...]:
    """`drafted` decoding steps of the draft model, then a step of the target over the drafted tokens and one more.

    The draft steps have contexts c, c + 1, ...: they count as that many steps at the mean, which is exact where no window cuts.
    Formats and layout of the draft model are those of the target unless they are given.
    """
    if phase.kind != DECODE or phase.also:
        raise InputError(f"speculative decoding verifies a decode step, not {phase.kind}" + " of a mixed batch" * bool(phase.also))  # fmt: skip
    if drafted < 1:
        raise InputError(f"a draft has at least 1 token, got {drafted}")
    step = replace(phase, tokens=1.0, context=phase.context + (drafted - 1) / 2)
    drafting = step_ops(draft, step, draft_formats or formats, draft_layout or layout, fused=fused)
    verify = step_ops(target, replace(phase, tokens=drafted + 1.0), formats, layout, fused=fused)
    return (
        *(replace(op, name=f"draft {op.name}", count=op.count * drafted) for op in drafting),
        *(replace(op, name=f"verify {op.name}") for op in verify),
    )
