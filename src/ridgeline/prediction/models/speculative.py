"""Speculative decoding: a draft proposes tokens, the model verifies them in one step and keeps those before the first miss.

With g proposed tokens that are each accepted with probability a, independently, a step yields 1 + a + a^2 + ... + a^g =
(1 - a^(g+1)) / (1 - a) tokens. Its time is g steps of the draft and one step of the model over g + 1 tokens a sequence.

Whether that helps depends on the layers and the batch: while decoding waits for weights the step over g + 1 tokens takes little
longer than one over a single token; once B (g + 1) rows make its products compute-bound, it takes as much longer as it has rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...core.cached import cached_property
from ...core.errors import InputError
from ...core.units import percent, show
from ...core.work import Array
from ...programs.models.architecture import Architecture
from ...programs.models.layout import Layout
from ...programs.models.speculative import expected_tokens
from .result import ModelPrediction, decode_step, powered, predict_model
from .serving import Serving, serve

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BISECTIONS = 30
SAME_VOCABULARY = 0.01  # by which sizes differ where one is padded


def verify_time(prediction: ModelPrediction, drafted: int) -> Array:
    """Seconds of one step of the model over the drafted tokens and the next one, of every sequence."""
    asked = prediction.architecture, prediction.machine, prediction.formats, prediction.layout, prediction.software
    step = decode_step(*asked, prediction.running, prediction.load.context, prediction.ceilings, drafted + 1.0)
    return powered(step) * prediction.layout.pp + prediction.software.host(prediction.running)


def speculative_tpot(prediction: ModelPrediction, draft: ModelPrediction, accepted: float, drafted: int) -> Array:
    """Seconds per token with a draft model that runs on the same devices, its steps one after the other."""
    return Speculation(prediction, draft, drafted, accepted).step / expected_tokens(accepted, drafted)


def predict_draft(prediction: ModelPrediction, draft: Architecture) -> ModelPrediction:
    """The draft under the same load on the same devices: split over those of a layer where its heads allow it, else on each."""
    if abs(draft.vocab / prediction.architecture.vocab - 1) > SAME_VOCABULARY:
        raise InputError(
            f"{draft.name} has {draft.vocab:,} tokens, {prediction.architecture.name} {prediction.architecture.vocab:,}: "
            "a draft needs the vocabulary of the model it drafts for"
        )
    asked = prediction.software.name, prediction.ceilings
    load = replace(prediction.load, batch=prediction.running)
    for layout in (Layout(tp=prediction.layout.tp, dp=prediction.layout.dp), Layout(dp=prediction.layout.dp)):
        try:
            return predict_model(draft, prediction.machine, load, prediction.formats, layout, *asked)
        except InputError:
            if layout.tp == 1:
                raise
    raise AssertionError("the second layout answers or raises")


@dataclass(frozen=True)
class Speculation:
    """A model with a draft; batches may be an array. The draft reads every prompt too, and shares the memory."""

    prediction: ModelPrediction
    draft: ModelPrediction
    drafted: int
    accepted: float

    DOCUMENT: ClassVar = (
        "draft=draft.architecture.name", "drafted", "accepted", "tokens", "batch=prediction.load.batch", "draft_us=drafting", "verify_us=verify",
        "decode_us=prediction.decode_time", "ttft_ms", "tpot_ms", "tokens_per_s=serving.tokens_per_s", "speedup", "break_even", "fits",
    )  # fmt: skip

    @property
    def tokens(self) -> float:
        """That one step yields, on average."""
        return float(expected_tokens(self.accepted, self.drafted))

    @property
    def drafting(self) -> Array:
        return self.drafted * self.draft.decode_time

    @cached_property
    def verify(self) -> Array:
        return verify_time(self.prediction, self.drafted)

    @property
    def step(self) -> Array:
        return self.drafting + self.verify

    @cached_property
    def serving(self) -> Serving:
        prefill = self.prediction.prefill_time + self.draft.prefill_time
        made = self.prediction
        return serve(made.software, prefill, self.step / self.tokens, made.load, made.layout.pp, made.running)

    @property
    def ttft_ms(self) -> Array:
        return self.serving.ttft * 1e3

    @property
    def tpot_ms(self) -> Array:
        return self.serving.tpot * 1e3

    @property
    def speedup(self) -> Array:
        """Of the time per output token."""
        return self.prediction.serving.tpot / self.serving.tpot

    @property
    def break_even(self) -> Array:
        """Acceptance from which on a step yields more tokens than decode steps fit into its time; NaN where none is enough."""
        needed = np.asarray(self.step / self.prediction.decode_time, dtype=np.float64)
        low, high = np.zeros(needed.shape), np.ones(needed.shape)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            enough = np.asarray(expected_tokens(middle, self.drafted)) >= needed
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.where(needed > self.drafted + 1, np.nan, high)

    @property
    def fits(self) -> Array:
        """Whether both models and their caches fit."""
        usable = self.prediction.memory.usable
        held = np.asarray(self.prediction.memory.total + self.draft.memory.total)
        return np.ones(held.shape, dtype=np.bool_) if usable is None else np.asarray(held <= usable)

    def at_batches(self, batches: Sequence[int] = BATCHES) -> Speculation:
        """The same models at other batches, evaluated at once."""
        grid = np.asarray(sorted({*batches, round(float(np.max(self.prediction.load.batch)))}), dtype=np.float64)
        prediction = self.prediction.with_load(batch=grid)
        return replace(self, prediction=prediction, draft=self.draft.with_load(batch=prediction.running))

    def answer(self) -> list[str]:
        """TPOT and whether the draft helps; then why."""
        before, speedup = float(self.prediction.serving.tpot), float(self.speedup)
        verdict = f"{speedup:.2f}x" if speedup > 1 else f"the draft does not help: {speedup:.2f}x"
        decode = float(self.prediction.decode_time)
        needed = float(self.break_even)
        even = (
            "no acceptance breaks even" if np.isnan(needed) else f"decode breaks even at {percent(needed)} acceptance"
        )
        lines = [
            f"TPOT {show(float(self.serving.tpot), 's', 3)} with {self.draft.architecture.name} as draft, {show(before, 's', 3)} without · {verdict} · {even}",
            f"a step of {show(float(self.step), 's', 3)} yields {show(self.tokens)} {'token' if self.tokens == 1 else 'tokens'} ({self.drafted} drafted, {percent(self.accepted)} accepted): drafting takes "
            f"{float(self.drafting) / decode:.2f} decode steps, verification {float(self.verify) / decode:.2f}",
        ]  # fmt: skip
        return lines if bool(self.fits) else [*lines, "does not fit: both models and their caches need more memory"]
