"""A language model as `ridgeline model` answers for it: the answer, prefill and decode side by side, then memory, curves, changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ....core.documents import to_document
from ....core.errors import RidgelineError, unknown
from ....prediction.models.ask import formats_for
from ....prediction.models.choice import ServiceLevel, best
from ....prediction.models.curve import curve
from ....prediction.models.remedies import remedies
from ....prediction.models.result import Load, ModelPrediction, predict_model
from ....prediction.models.software import all_software
from ....prediction.models.summary import answer, layout_text
from ....programs.models.architecture import Architecture
from ....programs.models.hf import read_config
from ....programs.models.layout import Layout
from ....programs.models.load import architecture, known, resolve
from ....render.chart import Picture
from ....render.charts.models import curve_chart, model_memory, model_phases
from ....render.charts.scaling import energy_chart
from ....render.table import Column, Table, columns
from ....render.tables.models import both_table, choice_table, critical_table, remedy_table
from ...reports.modelled import model_figures
from ...reports.parts import drawable
from .export import Sheet
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
        "figures": [list(pair) for pair in model_figures(made).items()],
        "chart": pictured(model_phases(made)),
        "table": tabled(both_table(made, None)),
        "fits": bool(np.all(made.memory.fits)),
    }


def model_sheet(asked: ModelQuestion, swept: str) -> Sheet:
    """The view as a file: its charts, tables and the document of `ridgeline model`."""
    made = predicted(asked)
    pictures = [model_phases(made), model_memory(made), *_curves(made, swept)]
    tables = [both_table(made, None), remedy_table(remedies(made)), critical_table(made)]
    return Sheet(f"{made.architecture.name} on {layout_text(made)}", answer(made), pictures, tables, to_document(made))


def _curves(made: ModelPrediction, swept: str) -> list[Picture]:
    """Throughput against latency and energy per token; without those that the machine has no figures for."""
    if swept not in CURVES:
        raise unknown("curve", swept, CURVES)
    makers: list[Callable[[], Picture]] = [
        lambda: curve_chart(curve([made], swept, np.asarray(CURVES[swept]))),
        lambda: energy_chart(made.with_load(batch=np.asarray(BATCHES))),
    ]
    return drawable(*makers)


def _other_machines(asked: ModelQuestion, machines: Sequence[str]) -> Table:
    """The same load on each machine, with its throughput over that of the first; those that cannot serve it say why below."""
    rows, refused = [], []
    for name in machines:
        try:
            rows.append(best(predicted(asked, name), ServiceLevel(), None))
        except RidgelineError as error:
            refused.append(f"{name}: {error}")
    table = choice_table(rows, "On other machines")
    first = next((row.tokens_per_s for row in rows if row.machine == asked.machine), 0.0)
    gains = [{**line, "gain": row.tokens_per_s / first if first and row.tokens_per_s else None} for line, row in zip(table.rows, rows, strict=True)]  # fmt: skip
    gain = columns(Column("gain", f"tok/s vs {asked.machine}"))
    return Table(table.title, (*table.columns[:-1], *gain, table.columns[-1]), gains, (*table.notes, *refused))


def model_details(asked: ModelQuestion, swept: str, others: Sequence[str]) -> dict[str, Any]:
    """What takes longer: memory, a curve, energy, changes with their gain, the same on other machines."""
    made = predicted(asked)
    pictures = [model_memory(made), *_curves(made, swept)]
    tables: list[Table] = [remedy_table(remedies(made)), critical_table(made)]
    machines = list(dict.fromkeys([asked.machine, *others]))
    if len(machines) > 1:
        tables.insert(0, _other_machines(asked, machines))
    return {
        "charts": [pictured(picture) for picture in pictures],
        "tables": [tabled(table) for table in tables],
        "document": to_document(made),
    }
