"""Replicas: how many data-parallel devices a batch of training can use before the exchange of gradients shows.

Over N replicas the kernels of a device take about 1/N of the time, the exchange of its gradients as long as before or longer:
from some N on it is longer than the kernels that hide it. More tokens in a step, narrower gradients, or splitting the
model instead of the batch move that N up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from ...core.errors import MissingFigure, RidgelineError
from ...core.machine import Machine
from ...core.network import groups
from ...programs.models.layout import DATA, EXPERT, EXPERT_DATA, PIPELINE, Layout
from .links import between
from .training import TrainingPrediction, predict_training

COMPRESSED = "fp8_e4m3"  # gradients as they travel


@dataclass(frozen=True)
class TrainingRemedy:
    """A change of a step on as many devices, and how many times faster the step is with it."""

    name: str
    time: float
    speedup: float

    DOCUMENT: ClassVar = ("name", "time_us=time", "speedup")


@dataclass(frozen=True)
class ReplicaLimit:
    """`most` replicas hide the exchange of gradients; with `shown_from` replicas, None where the batch has no more, it shows."""

    most: int | None  # None where it shows with any
    shown_from: int | None
    exposed: float  # seconds of the exchange that show with `shown_from` replicas
    entire: bool = True  # whether links join as many replicas as the batch has sequences for

    DOCUMENT: ClassVar = ("most", "shown_from", "exposed_us=exposed")


def replica_limit(made: TrainingPrediction) -> ReplicaLimit | None:
    """The largest dp that divides the batch into full microbatches and hides the exchange; None for a machine without links.

    Kernels get shorter and the exchange longer as replicas are added, so that it shows at all dp beyond the first where it does.
    """
    layout, job = made.layout, made.job
    degrees = [
        dp
        for dp in range(1, job.batch + 1)
        if job.batch % (dp * job.micro) == 0 and layout.tp * dp % layout.ep == 0  # experts keep their devices
    ]
    if not made.machine.links or not degrees:
        return None
    joined = [dp for dp in degrees if _joined(made.machine, replace(layout, dp=dp))]

    @lru_cache(None)
    def shown(dp: int) -> float:
        step = predict_training(
            made.architecture, made.machine, job, made.formats, replace(layout, dp=dp), made.ceilings
        )
        return step.exchange_shown

    low, high = -1, len(joined)  # degrees up to low hide it, those from high on do not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if shown(joined[middle]) == 0 else (low, middle)
    most = joined[low] if low >= 0 else None
    if high == len(joined):
        return ReplicaLimit(most, None, 0.0, joined == degrees)
    return ReplicaLimit(most, joined[high], shown(joined[high]))


def _joined(machine: Machine, layout: Layout) -> bool:
    """Whether links join the devices that exchange gradients, and the stages of a pipeline behind them."""
    groups_of = {DATA: layout.holders(experts=False), EXPERT_DATA: layout.holders(experts=True)}
    groups_of |= {EXPERT: layout.ep, PIPELINE: min(layout.pp, 2)}
    try:
        for over, ranks in groups_of.items():
            if ranks > 1:
                groups(between(machine, layout, over), float(ranks))
    except MissingFigure:
        return False
    return True


def training_remedies(made: TrainingPrediction) -> tuple[TrainingRemedy, ...]:
    """Half of the replicas exchanged for tensor or pipeline parallelism, and narrower gradients; the fastest first."""
    layout, rows = made.layout, []
    changes = [(f"gradients in {COMPRESSED}", layout, replace(made.formats, gradients=COMPRESSED))]
    if layout.dp % 2 == 0:
        fewer = layout.dp // 2
        changes += [
            (f"tp={layout.tp * 2} dp={fewer}", replace(layout, tp=layout.tp * 2, dp=fewer), made.formats),
            (f"pp={layout.pp * 2} dp={fewer}", replace(layout, pp=layout.pp * 2, dp=fewer), made.formats),
        ]
    for name, changed, formats in changes:
        try:
            after = predict_training(made.architecture, made.machine, made.job, formats, changed, made.ceilings)
        except RidgelineError:  # heads that do not divide, fewer layers than stages
            continue
        rows.append(TrainingRemedy(name, after.time, made.time / after.time))
    return tuple(sorted(rows, key=lambda row: row.time))


def replica_lines(made: TrainingPrediction) -> list[str]:
    """Up to how many replicas the exchange is hidden, and what helps where it shows; none where there can be only one."""
    limit = replica_limit(made)
    if limit is None or (limit.most == 1 and limit.shown_from is None):
        return []
    tokens = f"{made.job.batch * made.job.tokens:,} tokens per step"
    if limit.shown_from is None:
        every = "of this batch" if limit.entire else f"that the links of {made.machine.name} join"
        said = f"gradient exchange hidden at every dp {every}, to dp={limit.most}, with {tokens}"
    else:
        hidden = f"hidden to dp={limit.most}" if limit.most else "hidden at no dp"
        said = f"gradient exchange {hidden} with {tokens}; part of it shows from dp={limit.shown_from}"
    lines = [said]
    if made.exchange_shown > 0:
        rows = [row for row in training_remedies(made) if row.speedup > 1]
        listed = ", ".join(f"{row.name} {row.speedup:.2f}x" for row in rows)
        lines.append(
            f"next: {listed}"
            if rows
            else "next: a larger batch; neither more tensor or pipeline parallelism nor fp8 gradients help"
        )
    return lines
