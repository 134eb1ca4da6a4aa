"""A language model as `ridgeline model` answers for it: the answer, prefill and decode side by side, then memory, curves, changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ....core.documents import to_document
from ....core.errors import InputError, RidgelineError, unknown
from ....core.units import percent, show, show_interval
from ....prediction.models.ask import formats_for
from ....prediction.models.choice import ServiceLevel, best
from ....prediction.models.curve import curve
from ....prediction.models.remedies import remedies
from ....prediction.models.result import Load, ModelPrediction, predict_model
from ....prediction.models.software import all_software
from ....prediction.models.summary import answer
from ....programs.models.architecture import Architecture
from ....programs.models.hf import read_config
from ....programs.models.layout import Layout
from ....programs.models.load import architecture, known, resolve
from ....render.chart import Picture
from ....render.charts.models import curve_chart, model_memory, model_phases
from ....render.charts.scaling import energy_chart
from ....render.table import Table
from ....render.tables.models import both_table, choice_table, critical_table, remedy_table
from .lookup import machine_of
from .pictures import pictured, tabled

BATCHES = tuple(2.0**power for power in range(10))
PROMPTS = tuple(2.0**power for power in range(7, 18))
CURVES = {"batch": BATCHES, "prompt": PROMPTS}
PASTED = "pasted config.json"


@dataclass(frozen=True)
class ModelQuestion:
    """A model by its name or its configuration, where it runs, what is asked of it."""

    machine: str
    model: str = ""
    config: Mapping[str, Any] | None = None
    batch: float = 1.0
    prompt: float = 2048.0
    generate: float = 256.0
    static: bool = False
    dtype: str = "bf16"
    weights: str | None = None
    kv: str | None = None
    software: str | None = None
    ceilings: str | None = None
    layout: Layout = field(default_factory=Layout)


def software_names() -> list[str]:
    return list(all_software())


def architecture_of(asked: ModelQuestion) -> Architecture:
    """Of a known name or of the fields of a configuration; never of a file."""
    if asked.config is not None:
        return read_config(asked.config, PASTED)
    return _known(asked.model)


@lru_cache(maxsize=64)
def _known(name: str) -> Architecture:
    if resolve(name) is None:
        raise unknown("model", name, known())
    return architecture(resolve(name) or name)


def predicted(asked: ModelQuestion, machine: str | None = None) -> ModelPrediction:
    load = Load(asked.batch, asked.prompt, asked.generate, asked.static)
    formats = formats_for(asked.dtype, asked.weights or None, asked.kv or None)
    place = machine_of(machine or asked.machine)
    return predict_model(
        architecture_of(asked), place, load, formats, asked.layout, asked.software or None, asked.ceilings
    )


def ask_model(asked: ModelQuestion) -> dict[str, Any]:
    """What is shown while a slider moves."""
    made = predicted(asked)
    return {
        "answer": answer(made),
        "figures": figures(made),
        "chart": pictured(model_phases(made)),
        "table": tabled(both_table(made, None)),
        "fits": made.memory.share is None or float(made.memory.share) <= 1,
    }


def figures(made: ModelPrediction) -> list[list[str]]:
    """What a request sees, as the key figures of the page."""
    tpot = show_interval(float(made.serving.tpot), float(made.tpot_end("low")), float(made.tpot_end("high")))
    rows = [
        ["TTFT", show(float(made.serving.ttft), "s", 3)],
        ["TPOT", tpot],
        ["throughput", f"{show(float(made.tokens_per_s))} tok/s"],
    ]
    if made.devices > 1:
        rows.append(["per device", f"{show(float(made.tokens_per_s_per_device))} tok/s"])
    if made.memory.share is not None:
        rows.append(["memory", percent(float(made.memory.share))])
    if made.joules_per_token is not None:
        rows.append(["energy", f"{show(float(made.joules_per_token), 'J', 3)} per token"])
    return rows


def model_details(asked: ModelQuestion, swept: str, others: Sequence[str]) -> dict[str, Any]:
    """What takes longer: memory, a curve, energy, changes with their gain, the same on other machines."""
    if swept not in CURVES:
        raise unknown("curve", swept, CURVES)
    made = predicted(asked)
    changes = remedies(made)
    pictures: list[Callable[[], Picture]] = [
        lambda: model_memory(made),
        lambda: curve_chart(curve([made], swept, np.asarray(CURVES[swept]))),
        lambda: energy_chart(made.with_load(batch=np.asarray(BATCHES))),
    ]
    drawn = [_drawn(make) for make in pictures]
    tables: list[Table] = [remedy_table(changes), critical_table(made)]
    machines = list(dict.fromkeys([asked.machine, *others]))
    if len(machines) > 1:
        rows, refused = [], []
        for name in machines:
            try:
                rows.append(best(predicted(asked, name), ServiceLevel(), None))
            except RidgelineError as error:
                refused.append(f"{name}: {error}")
        if rows:
            compared = choice_table(rows, "On other machines")
            tables.append(Table(compared.title, compared.columns, compared.rows, (*compared.notes, *refused)))
    return {
        "charts": [item for item in drawn if item],
        "tables": [tabled(table) for table in tables],
        "document": to_document(made),
    }


def _drawn(make: Callable[[], Picture]) -> dict[str, Any] | None:
    """The picture; None where the machine lacks the figures for it."""
    try:
        return pictured(make())
    except InputError:
        return None
