"""Speculative decoding: seconds per token with a draft model, from steps that verify several tokens of a sequence at once."""

from __future__ import annotations

from ...programs.models.phase import DECODE, Phase
from ...programs.models.program import step_ops
from ...programs.models.speculative import expected_tokens
from .result import ModelPrediction
from .step import predict_step


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
    return steps / float(expected_tokens(accepted, drafted))
