"""Choice: layouts and batches of a model on machines, those that meet a service level, and what a million tokens costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core.errors import InputError
from ...core.machine import Machine
from ...programs.models.architecture import Architecture
from ...programs.models.layout import Layout
from ...programs.models.phase import Formats
from .result import HOUR, MILLION, Load, ModelPrediction, predict_model

BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True)
class ServiceLevel:
    """The longest that a request may wait for its first token, and for each further one, in seconds."""

    ttft: float = float("inf")
    tpot: float = float("inf")


@dataclass(frozen=True)
class Choice:
    """One layout at one batch; times in seconds. `reason` says why it is no answer, and is empty where it is one."""

    machine: str
    layout: Layout
    batch: int
    ttft: float
    tpot: float
    tokens_per_s: float
    memory: float | None  # share of the device's memory
    reason: str = ""
    price: float | None = None  # per device and hour

    DOCUMENT: ClassVar = (
        "machine", "devices", "layout", "batch", "ttft_ms", "tpot_ms", "tokens_per_s", "tokens_per_s_per_device", "memory", "cost_per_million", "reason",
    )  # fmt: skip

    @property
    def devices(self) -> int:
        return self.layout.devices

    @property
    def ttft_ms(self) -> float:
        return self.ttft * 1e3

    @property
    def tpot_ms(self) -> float:
        return self.tpot * 1e3

    @property
    def tokens_per_s_per_device(self) -> float:
        return self.tokens_per_s / self.devices

    @property
    def cost_per_million(self) -> float | None:
        """Of a million generated tokens."""
        if self.price is None:
            return None
        return self.price * self.devices / HOUR / self.tokens_per_s * MILLION


def layouts(architecture: Architecture, machine: Machine, most: int) -> Iterator[Layout]:
    """Tensor-parallel layouts over 1, 2, 4 ... devices within a node, and pipelines of nodes beyond."""
    node = max((link.devices or 1 for link in machine.links), default=1)
    heads = [layer.attention.heads for layer in architecture.layers]
    devices = 1
    while devices <= most:
        tp = min(devices, node)
        while tp > 1 and any(count % tp for count in heads):
            tp //= 2
        if devices % tp == 0 and devices // tp <= architecture.depth:
            yield Layout(tp=tp, pp=devices // tp)
        devices *= 2


def choices(
    architecture: Architecture,
    machines: Sequence[Machine],
    load: Load,
    formats: Formats,
    level: ServiceLevel,
    given: Iterable[Layout] | None = None,
    batches: Sequence[int] = BATCHES,
    software: str | None = None,
    prices: dict[str, float] | None = None,
    most: int = 8,
) -> tuple[Choice, ...]:
    """The best batch of every layout, those that meet the level first: the cheapest by price, else the most tokens a second
    and device."""
    grid = np.asarray(batches, dtype=np.float64)
    rows = []
    for machine in machines:
        listed = tuple(given) if given is not None else tuple(layouts(architecture, machine, most))
        for layout in listed:
            try:
                prediction = predict_model(architecture, machine, replace(load, batch=grid), formats, layout, software)
            except InputError as error:
                rows.append(Choice(machine.name, layout, 0, 0.0, 0.0, 0.0, 0.0, str(error)))
                continue
            rows.append(best(prediction, level, (prices or {}).get(machine.name)))
    return tuple(sorted(rows, key=_order))


def best(prediction: ModelPrediction, level: ServiceLevel, price: float | None = None) -> Choice:
    """The batch of a layout that gives most tokens a second within the level and the memory; else the one that is nearest."""
    grid = np.atleast_1d(np.asarray(prediction.load.batch, dtype=np.float64))
    columns = {
        name: np.broadcast_to(np.asarray(value, dtype=np.float64), grid.shape)
        for name, value in (
            ("ttft", prediction.serving.ttft), ("tpot", prediction.serving.tpot), ("tokens_per_s", prediction.tokens_per_s),
        )
    }  # fmt: skip
    fits = np.broadcast_to(np.asarray(prediction.memory.fits), grid.shape)
    meets = (columns["ttft"] <= level.ttft) & (columns["tpot"] <= level.tpot)
    allowed = fits & meets
    reason = ""
    if allowed.any():
        place = int(np.argmax(np.where(allowed, columns["tokens_per_s"], -1.0)))
    else:
        place = 0
        reason = "does not fit" if not fits.any() else _missed(columns, level, int(np.flatnonzero(fits)[0]))
        place = 0 if not fits.any() else int(np.flatnonzero(fits)[0])
    values: dict[str, Any] = {name: float(column[place]) for name, column in columns.items()}
    share = prediction.memory.share
    values["memory"] = None if share is None else float(np.broadcast_to(np.asarray(share), grid.shape)[place])
    return Choice(prediction.machine.name, prediction.layout, int(grid[place]), **values, reason=reason, price=price)


def _missed(columns: dict[str, Any], level: ServiceLevel, place: int) -> str:
    """Which of the two times is too long even at the smallest batch."""
    names = [name.upper() for name in ("ttft", "tpot") if columns[name][place] > getattr(level, name)]
    return f"{' and '.join(names)} too long at any batch"


def _order(choice: Choice) -> tuple[bool, float]:
    cost = choice.cost_per_million
    worth = cost if cost is not None else -(choice.tokens_per_s / choice.devices if choice.tokens_per_s else 0.0)
    return bool(choice.reason), worth
