"""Random questions about models: a model of the list on a machine of the catalog, with formats, a layout, software and loads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ridgeline as rl
from ridgeline.core.errors import InputError
from ridgeline.core.machine import Machine
from ridgeline.machines.files import names
from ridgeline.prediction.models.ask import formats_for
from ridgeline.prediction.models.result import Load, ModelPrediction, predict_model
from ridgeline.prediction.models.software import all_software
from ridgeline.prediction.models.training import Job
from ridgeline.programs.models.architecture import Architecture, Experts
from ridgeline.programs.models.layout import Layout, check_layout
from ridgeline.programs.models.load import architecture, known
from ridgeline.programs.models.phase import Formats

LOADS = 256  # of one question, predicted at once
TRIES = 30  # of a layout that a model can be split in
Values = NDArray[np.float64]
ARITHMETIC = (("bf16", 0.5), ("fp16", 0.2), ("fp8_e4m3", 0.15), ("int8", 0.05), ("nvfp4", 0.05), ("fp32", 0.05))
WEIGHTS = (None, "int4_g128", "int8", "fp8_e4m3", "mxfp4", "nvfp4")
CACHES = (None, "fp8_e4m3", "int8", "bf16")


@dataclass(frozen=True)
class Question:
    architecture: Architecture
    machine: Machine
    formats: Formats
    layout: Layout
    software: str
    load: Load  # arrays of LOADS values

    def predict(self, **changes: Any) -> ModelPrediction:
        asked = replace(self, **changes)
        return predict_model(
            asked.architecture, asked.machine, asked.load, asked.formats, asked.layout, asked.software
        )  # fmt: skip

    def text(self, place: int) -> str:
        formats, layout = self.formats, self.layout
        degrees = " ".join(f"{name}={getattr(layout, name)}" for name in ("tp", "pp", "dp", "ep", "cp"))
        sizes = [
            f"{name}={float(np.broadcast_to(getattr(self.load, name), LOADS)[place]):g}"
            for name in ("batch", "prompt", "generate")
        ]
        stored = f"{formats.activations}/{formats.weights}/{formats.kv}"
        flags = " sequence" * layout.sequence + " static" * self.load.static
        return f"{self.architecture.name} on {self.machine.name} {stored} {degrees}{flags} {self.software} {' '.join(sizes)}"


@dataclass(frozen=True)
class TrainingQuestion:
    architecture: Architecture
    machine: Machine
    formats: Formats
    layout: Layout
    job: Job

    def text(self, place: int = 0) -> str:
        layout, job = self.layout, self.job
        degrees = " ".join(f"{name}={getattr(layout, name)}" for name in ("tp", "pp", "dp", "ep", "cp", "shard"))
        sizes = f"batch={job.batch} tokens={job.tokens} micro={job.micro} recompute={job.recompute} interleaved={job.interleaved}"
        return (
            f"train {self.architecture.name} on {self.machine.name} {self.formats.activations}/{self.formats.weights} "
            f"{degrees}{' sequence' * layout.sequence} {sizes}"
        )


@dataclass
class Source:
    """Questions in an order that a seed decides."""

    seed: int
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def _one(self, values: Any, shares: Any = None) -> Any:
        return values[int(self.random.choice(len(values), p=shares))]

    def sizes(self, least: float, most: float) -> Values:
        """Whole numbers from 1 to 2^most, as many in every octave."""
        return np.ceil(np.exp2(self.random.uniform(least, most, LOADS)))

    def grown(self, before: Values) -> Values:
        """One more, a few more, or up to four times as many."""
        return before + np.ceil(before * np.exp2(self.random.uniform(-12, 2, LOADS)))

    def formats(self) -> Formats:
        names_of, shares = zip(*ARITHMETIC, strict=True)
        weights = self._one(WEIGHTS) if self.random.random() < 0.4 else None
        kv = self._one(CACHES) if self.random.random() < 0.3 else None
        try:
            return formats_for(self._one(names_of, shares), weights, kv)
        except InputError:  # weights wider than the arithmetic
            return Formats()

    def layout(self, asked: Architecture, training: bool = False) -> Layout:
        """One that the model can be split in; a third of them are single devices."""
        experts = any(isinstance(layer.mlp, Experts) for layer in asked.layers)
        for _ in range(TRIES if self.random.random() < 0.67 else 0):
            tp, pp, dp, cp = (self._one(degrees) for degrees in ((1, 2, 4, 8, 16), (1, 1, 2, 3, 8), (1, 1, 2, 8), (1, 1, 1, 2, 4)))  # fmt: skip
            ep = self._one((1, 2, 4, 8, 16)) if experts else 1
            flags = {
                "sequence": bool(self.random.random() < 0.3),
                "shard": int(self.random.integers(4)) * training,
                "ring": bool(self.random.random() < 0.7),
            }
            try:
                made = Layout(tp, pp, dp, ep, cp, **flags)
                check_layout(asked, made)
            except InputError:
                continue
            return made
        return Layout()

    def ask(self) -> Question:
        asked = self._one(decoders())
        load = Load(self.sizes(0, 10), self.sizes(0, 15), self.sizes(0, 12), bool(self.random.random() < 0.2))
        return Question(
            asked, self._one(machines()), self.formats(), self.layout(asked), self._one(tuple(all_software())), load
        )

    def _interleaved(self, asked: Architecture, layout: Layout) -> int:
        return self._one((1, 2)) if layout.pp > 1 and 2 * layout.pp <= asked.depth else 1

    def ask_training(self) -> TrainingQuestion:
        asked = self._one(decoders())
        layout = self.layout(asked, training=True)
        micro = self._one((1, 1, 2, 4))
        batch = layout.dp * micro * self._one((1, 1, 2, 4, 8, 32))
        tokens = int(np.ceil(np.exp2(self.random.uniform(6, 15))))
        job = Job(batch, tokens, micro, self._one(("none", "selective", "full")), self._interleaved(asked, layout))
        stored = self._one(("bf16", "bf16", "fp16", "fp8_e4m3"))
        return TrainingQuestion(asked, self._one(machines()), Formats(stored, stored), layout, job)


@cache
def decoders() -> tuple[Architecture, ...]:
    return tuple(made for made in map(architecture, known()) if made.causal)


@cache
def machines() -> tuple[Machine, ...]:
    return tuple(map(rl.machine, names()))
