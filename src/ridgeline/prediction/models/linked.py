"""The communication roofline of a model's layout: what each of its collectives sends, against the arithmetic of the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ...core.errors import InputError
from ...core.work import total
from ...programs.models.program import COMMUNICATION
from ..extended import CommunicationRoofline, communication
from .result import ModelPrediction
from .step import OpTime, StepPrediction
from .training import TrainingPrediction

MIN_SENT = 0.01  # of the bytes of the collective of a phase that sends most; smaller ones are left out


def model_communication(made: ModelPrediction | TrainingPrediction) -> CommunicationRoofline:
    """FLOPs of a device in a step per byte that it sends in each collective, all of its calls, on the link that takes longest.

    A collective whose point lies right of the ridge of its link takes less time at the ceilings than the arithmetic of the step.
    """
    if isinstance(made, TrainingPrediction):
        steps: Iterable[tuple[str, StepPrediction]] = (("training", made.step),)
    else:
        steps = (("prefill", made.prefill), ("decode", made.decode))
    study = communication(made.machine, made.formats.activations, made.ceilings)
    intensity: dict[str, float] = {}
    carriers: dict[str, str] = {}
    for phase, step in steps:
        sent: dict[str, float] = {}
        flops = float(np.max(total(item.flops for item in step.ops if item.op.part != COMMUNICATION)))
        for item in step.ops:
            link, amount = carried(item, study.links)
            if not link:
                continue
            name = f"{phase}: {item.op.name}"
            sent[name], carriers[name] = sent.get(name, 0.0) + amount, link
        most = max(sent.values(), default=0.0)
        intensity |= {name: flops / size for name, size in sent.items() if size >= MIN_SENT * most}
    if not intensity:
        raise InputError("a single device sends nothing: split the model over tp, pp, dp, ep or cp devices")
    return replace(study, training=intensity, carriers=carriers)


def carried(item: OpTime, links: Iterable[str]) -> tuple[str, float]:
    """The link on which a collective takes longest, and the bytes it carries in all calls; no link for kernels."""
    if item.op.part != COMMUNICATION:
        return "", 0.0
    terms = [
        (float(np.max(term.time)), name, float(np.max(np.asarray(term.amount) * item.op.count)))
        for bound in item.prediction.bounds
        for name, term in bound.terms.items()
        if name in links
    ]
    return max(terms)[1:] if terms else ("", 0.0)
