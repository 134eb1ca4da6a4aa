"""Remedies: what the usual changes would bring to the decode steps of a model, each predicted by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...core.dtypes import dtype
from ...core.errors import RidgelineError
from ...core.units import percent
from ...programs.models.layout import Layout
from ...programs.models.speculative import expected_tokens
from .result import ModelPrediction, predict_model
from .serving import serve
from .speculative import verify_time

DRAFTED, ACCEPTED = 4, 0.7  # tokens a draft proposes, and the share of them that is taken
MORE_SEQUENCES = 8


@dataclass(frozen=True)
class Remedy:
    """A change and the quantity it changes; seconds per token of a request, and tokens a second in all, after it."""

    name: str
    changes: str
    tpot: float
    tokens_per_s: float
    before: ModelPrediction
    fits: bool = True  # in the memory of a device
    assumed: bool = False  # rests on a figure that nothing here gives, such as how many drafted tokens are accepted

    DOCUMENT: ClassVar = ("name", "changes", "tpot_ms", "tokens_per_s", "speedup", "throughput_gain", "fits")

    @property
    def tpot_ms(self) -> float:
        return self.tpot * 1e3

    @property
    def speedup(self) -> float:
        """Of the tokens of a request after its first."""
        return float(self.before.serving.tpot) / self.tpot

    @property
    def throughput_gain(self) -> float:
        """Of tokens a second and device."""
        return self.tokens_per_s / float(self.before.tokens_per_s)


def remedies(prediction: ModelPrediction) -> tuple[Remedy, ...]:
    """Narrower weights, speculation, more sequences, a narrower cache, more devices; those that apply."""
    rows = []
    formats, layout, load = prediction.formats, prediction.layout, prediction.load

    def add(name: str, changes: str, after: ModelPrediction, devices: float = 1.0) -> None:
        tpot, rate, fits = (
            float(after.serving.tpot),
            float(after.tokens_per_s) / devices,
            bool(np.all(after.memory.fits)),
        )
        rows.append(Remedy(name, changes, tpot, rate, prediction, fits))

    def changed(**changes: object) -> ModelPrediction:
        values = {"load": load, "formats": formats, "layout": layout, **changes}
        return predict_model(
            prediction.architecture,
            prediction.machine,
            software=prediction.software.name,
            ceilings=prediction.ceilings,
            **values,  # type: ignore[arg-type]
        )

    for name in ("fp8_e4m3", "int4_g128"):
        if dtype(name).bytes < dtype(formats.weights).bytes:
            add(f"{name} weights", "bytes of weights", changed(formats=replace(formats, weights=name)))
    if prediction.architecture.causal and dtype("fp8_e4m3").bytes < dtype(formats.kv).bytes:
        add("fp8 cache", "bytes of the cache", changed(formats=replace(formats, kv="fp8_e4m3")))
    rows.append(_speculation(prediction))
    add(
        f"{MORE_SEQUENCES}x the batch",
        "tokens per read of the weights",
        changed(load=replace(load, batch=load.batch * MORE_SEQUENCES)),
    )
    try:
        wider: Layout = replace(layout, tp=layout.tp * 2)
        add(f"tp={wider.tp}", "bytes a device reads", changed(layout=wider), 2.0)
    except RidgelineError:  # heads that do not divide, links that are not known
        pass
    return tuple(sorted(rows, key=lambda row: -row.speedup))


def _speculation(prediction: ModelPrediction) -> Remedy:
    """A draft that costs nothing, so that this is the most it can bring; its verification is a step of several tokens."""
    decode = verify_time(prediction, DRAFTED) / expected_tokens(ACCEPTED, DRAFTED)
    after = serve(
        prediction.software, prediction.prefill_time, decode, prediction.load, prediction.layout.pp, prediction.running
    )
    name = f"speculate {DRAFTED} tokens at {percent(ACCEPTED)} acceptance, draft not counted"
    rate = float(after.tokens_per_s) * prediction.layout.dp
    fits = bool(np.all(prediction.memory.fits))
    return Remedy(name, "tokens per step", float(after.tpot), rate, prediction, fits, assumed=True)


def best_remedy(prediction: ModelPrediction, rows: Sequence[Remedy]) -> Remedy | None:
    """The change that shortens the time per token most, and fits in memory; None where none does both, or a figure is assumed."""
    known = [
        row for row in rows if not row.assumed and row.fits and (row.speedup > 1 or not np.all(prediction.memory.fits))
    ]
    return max(known, key=lambda row: row.speedup, default=None)
