"""Speculative decoding: a draft proposes tokens, the model verifies them in one step and keeps those before the first miss.

With g proposed tokens that are each accepted with probability a, independently, a step yields 1 + a + a^2 + ... + a^g =
(1 - a^(g+1)) / (1 - a) tokens. Its time is g steps of the draft and one step of the model over g + 1 tokens a sequence.
"""

from __future__ import annotations

from ...core.errors import InputError
from ...programs.models.phase import DECODE, Phase
from ...programs.models.program import step_ops
from .result import ModelPrediction
from .step import predict_step


def expected_tokens(accepted: float, drafted: int) -> float:
    """Tokens of a step: between 1, with nothing accepted, and g + 1."""
    if not 0 <= accepted <= 1:
        raise InputError(f"the share of accepted tokens lies between 0 and 1, got {accepted}")
    if drafted < 1:
        raise InputError(f"a draft proposes at least one token, got {drafted}")
    return drafted + 1.0 if accepted == 1 else (1 - accepted ** (drafted + 1)) / (1 - accepted)


def verify_time(prediction: ModelPrediction, drafted: int) -> float:
    """Seconds of one step of the model over the drafted tokens and the next one, of every sequence."""
    phase = Phase(DECODE, prediction.load.batch * prediction.layout.dp, drafted + 1.0, prediction.load.context)
    ops = step_ops(prediction.architecture, phase, prediction.formats, prediction.layout)
    runs = prediction.software
    step = predict_step(ops, prediction.machine, prediction.ceilings, runs.graph, prediction.layout, runs.light)
    return float(step.time * prediction.layout.pp + prediction.software.host(prediction.load.batch))


def speculative_tpot(prediction: ModelPrediction, draft: ModelPrediction, accepted: float, drafted: int) -> float:
    """Seconds per token with a draft model that runs on the same devices, its steps one after the other."""
    steps = drafted * float(draft.decode_time) + verify_time(prediction, drafted)
    return steps / expected_tokens(accepted, drafted)
