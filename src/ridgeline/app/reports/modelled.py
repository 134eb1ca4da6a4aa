"""Report pages of models: served, trained, over batches and devices, on several machines, with a draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.documents import to_document
from ...core.units import percent, rounded_text, show
from ...prediction.models.curve import curve
from ...prediction.models.linked import model_communication
from ...prediction.models.summary import devices_text, layout_text
from ...render.charts.models import curve_chart, model_memory, model_roofline, training_memory, training_roofline
from ...render.charts.scaling import batches_chart, energy_chart, layout_communication
from ...render.charts.served import choices_chart, machines_chart, speculation_chart, trained_chart
from ...render.draw.html import Page, Section, points_tables, write
from ...render.tables.models import (
    both_table,
    choice_table,
    critical_table,
    curve_table,
    held_table,
    memory_table,
    op_table,
    remedy_table,
    speculation_table,
    training_remedy_table,
    training_table,
)
from .parts import drawable, filled, untitled

if TYPE_CHECKING:
    from ...prediction.models.choice import Choice, ServiceLevel
    from ...prediction.models.remedies import Remedy
    from ...prediction.models.replicas import TrainingRemedy
    from ...prediction.models.result import ModelPrediction
    from ...prediction.models.speculative import Speculation
    from ...prediction.models.training import TrainingPrediction
    from ...render.chart import Picture
    from ...render.table import Table

MULTIPLES = (1, 8, 64, 512)  # batches of the small multiples
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # of the energy per token, and of machines side by side
UNCOUNTED = "Not in the times"
SERVING_UNCOUNTED = (
    "Steps leave out sampling, the indices of routed tokens and soft caps of logits; vision and audio encoders, and layers that predict "
    "several tokens, are left out with a note."
)
TRAINING_UNCOUNTED = "Steps leave out dropout, clipping and the norm of gradients, data loading, checkpoints and the indices of routed tokens."


# -- pictures that need predictions under other loads ----------------------------------------------------------


def model_picture(prediction: ModelPrediction, name: str) -> Picture:
    """The chart of that name; `batches` and `energy` are drawn from the same model at other batches."""
    if name == "batches":
        return batches_chart([prediction.with_load(batch=float(batch)) for batch in MULTIPLES])
    if name == "energy":
        return energy_chart(prediction.with_load(batch=np.asarray(BATCHES, dtype=np.float64)))
    if name == "communication":
        title = f"{prediction.architecture.name} on {layout_text(prediction)}"
        return layout_communication(model_communication(prediction), title)
    return model_memory(prediction) if name == "memory" else model_roofline(prediction)


def training_picture(made: TrainingPrediction, name: str) -> Picture:
    if name == "communication":
        title = f"{made.architecture.name} on {devices_text(made.layout, made.machine.name)}, training"
        return layout_communication(model_communication(made), title)
    return training_memory(made) if name == "memory" else training_roofline(made)


# -- one layout ------------------------------------------------------------------------------------------------


def model_page(
    prediction: ModelPrediction, changes: Sequence[Remedy], out: Path, theme: str | None, answer: Sequence[str], document: Mapping[str, Any]
) -> None:  # fmt: skip
    """A model that is served: prefill and decode on the roofline, changes, batches, memory, energy, links."""
    roofline, memory, batches, energy, links = (
        drawable(partial(model_picture, prediction, name))
        for name in ("roofline", "memory", "batches", "energy", "communication")
    )
    phases = [
        op_table("Decode step", prediction.decode, phase="decode"),
        op_table("Prefill of one prompt", prediction.prefill, phase="prefill"),
    ]
    sections = [
        Section("Prefill and decode", "", roofline, phases),
        Section("What each change would bring", tables=untitled(remedy_table(changes))),
        Section("Batches", "", batches, [critical_table(prediction)]),
        Section("Memory", "", memory, untitled(memory_table(prediction))),
        Section("Energy", "", energy, dots_table(energy)),
        Section("Communication", "", links, dots_table(links)),
        Section(UNCOUNTED, SERVING_UNCOUNTED),
    ]
    title = f"ridgeline model: {prediction.architecture.name} on {layout_text(prediction)}"
    figures = model_figures(prediction, document.get("cost_per_million"))
    write(out, Page(title, filled(sections), document, answer, figures), theme)


def model_figures(prediction: ModelPrediction, cost: float | None = None) -> dict[str, str]:
    """Key figures of a model under its load; what is not known is left out."""
    share, joules = prediction.memory.share, prediction.joules_per_token
    several = prediction.devices > 1
    figures = {
        "TTFT": show(float(prediction.serving.ttft), "s", 3),
        "TPOT": show(float(prediction.serving.tpot), "s", 3),
        "tok/s": show(float(prediction.tokens_per_s)),
        "tok/s per device": show(float(prediction.tokens_per_s_per_device)) if several else "",
        "memory per device": "" if share is None else percent(float(share)),
        "energy per decoded token": "" if joules is None else show(float(joules), "J", 3),
        "cost of a million tokens": f"{cost:.3g}" if cost else "",
    }
    return {name: text for name, text in figures.items() if text}


def dots_table(pictures: Sequence[Picture]) -> list[Table]:
    """The dots of charts, one a row."""
    return [table for picture in pictures for table in points_tables(picture)]


def training_page(
    made: TrainingPrediction, changes: Sequence[TrainingRemedy], out: Path, theme: str | None, answer: Sequence[str], document: Any
) -> None:  # fmt: skip
    """A training step: its ops on the roofline, changes, memory, and what its collectives send."""
    roofline, memory, links = (
        drawable(partial(training_picture, made, name)) for name in ("roofline", "memory", "communication")
    )
    several = made.devices > 1
    capacity = made.machine.main.capacity.value()
    sections = [
        Section("Ops of a step", "", roofline, [op_table("", made.step)]),
        Section("What each change would bring", tables=untitled(training_remedy_table(changes)) if several else []),
        Section("Memory", "", memory, untitled(held_table(made.memory, capacity))),
        Section("Communication", "", links, dots_table(links)),
        Section(UNCOUNTED, TRAINING_UNCOUNTED),
    ]
    title = f"ridgeline model: training {made.architecture.name} on {devices_text(made.layout, made.machine.name)}"
    write(out, Page(title, filled(sections), document, answer, training_figures(made)), theme)


def training_figures(made: TrainingPrediction) -> dict[str, str]:
    capacity, held = made.machine.main.capacity.value(), sum(made.memory.values())
    figures = {
        "step": show(made.time, "s", 3),
        "tok/s": show(made.tokens_per_s),
        "tok/s per device": show(made.tokens_per_s_per_device) if made.devices > 1 else "",
        "MFU": percent(made.mfu) if made.mfu is not None else "",
        "exposed communication": show(made.exposed, "s", 3) if made.devices > 1 else "",
        "pipeline bubble": percent(made.bubble) if made.bubble else "",
        "memory per device": percent(held / capacity) if capacity else show(held, "B", 3),
    }
    return {name: text for name, text in figures.items() if text}


# -- several ---------------------------------------------------------------------------------------------------


def study_page(
    name: str, picture: Sequence[Picture], table: Table, uncounted: str, out: Path, theme: str | None, answer: Sequence[str], document: Any
) -> None:  # fmt: skip
    """A curve over loads or devices: its chart, joined with its table."""
    sections = [Section("", "", picture, [table]), Section(UNCOUNTED, uncounted)]
    write(out, Page(f"ridgeline model: {name}", filled(sections), document, answer), theme)


def machines_page(
    made: Sequence[ModelPrediction], rows: Sequence[Choice], out: Path, theme: str | None, answer: Sequence[str]
) -> None:
    """Machines side by side under one load, then over batches, then the ops of each."""
    name = made[0].architecture.name
    swept = curve(made, "batch", np.asarray(BATCHES, dtype=np.float64))
    sections = [
        Section("Side by side", "", drawable(partial(machines_chart, rows, name)), [choice_table(rows)]),
        Section("Over batches", "", drawable(partial(curve_chart, swept)), [curve_table(swept)]),
        *(Section(f"Ops on {layout_text(item)}", tables=[both_table(item, None)], folded=True) for item in made),
        Section(UNCOUNTED, SERVING_UNCOUNTED),
    ]
    document = {"machines": to_document(list(rows)), "curve": to_document(swept)}
    usable = [row for row in rows if not row.reason]
    figures = choice_figures(max(usable, key=lambda row: row.tokens_per_s_per_device)) if usable else {}
    title = f"ridgeline model: {name}, machines side by side"
    write(out, Page(title, filled(sections), document, answer, figures), theme)


def choices_page(
    rows: Sequence[Choice], model: str, level: ServiceLevel, out: Path, theme: str | None, answer: Sequence[str]
) -> None:
    """Layouts and batches that keep a service level, the best first, and why others do not."""
    usable = [row for row in rows if not row.reason]
    figures = choice_figures(usable[0]) if usable else {}
    chart = drawable(partial(choices_chart, rows, model, level))
    sections = [Section("Layouts", "", chart, [choice_table(rows)]), Section(UNCOUNTED, SERVING_UNCOUNTED)]
    document = to_document(list(rows))
    write(out, Page(f"ridgeline model: layouts of {model}", filled(sections), document, answer, figures), theme)


def choice_figures(row: Choice) -> dict[str, str]:
    cost = row.cost_per_million
    figures = {
        "layout": devices_text(row.layout, row.machine),
        "batch": f"{row.batch}",
        "TTFT": show(row.ttft, "s", 3),
        "TPOT": show(row.tpot, "s", 3),
        "tok/s per device": show(row.tokens_per_s_per_device),
        "cost of a million tokens": f"{cost:.3g}" if cost else "",
    }
    return {name: text for name, text in figures.items() if text}


def draft_page(made: Speculation, out: Path, theme: str | None, document: Any) -> None:
    """A draft model: what it brings under the load, and over batches."""
    swept = made.at_batches()
    figures = {
        "TPOT with the draft": show(float(made.serving.tpot), "s", 3),
        "TPOT without": show(float(made.prediction.serving.tpot), "s", 3),
        "speedup": f"{rounded_text(float(made.speedup), 3)}x",
        "tokens a step": show(made.tokens),
    }
    chart = drawable(partial(speculation_chart, swept))
    sections = [Section("Over batches", "", chart, [speculation_table(swept)]), Section(UNCOUNTED, SERVING_UNCOUNTED)]
    title = f"ridgeline model: {made.prediction.architecture.name} with {made.draft.architecture.name} as draft"
    write(out, Page(title, filled(sections), document, made.answer(), figures), theme)


def trained_page(made: Sequence[TrainingPrediction], out: Path, theme: str | None, answer: Sequence[str]) -> None:
    """A training step on several machines, then the ops of each."""
    sections = [
        Section("Side by side", "", drawable(partial(trained_chart, made)), [training_table(made)]),
        *(
            Section(
                f"Ops on {devices_text(item.layout, item.machine.name)}", tables=[op_table("", item.step)], folded=True
            )
            for item in made
        ),
        Section(UNCOUNTED, TRAINING_UNCOUNTED),
    ]
    title = f"ridgeline model: training {made[0].architecture.name}, machines side by side"
    write(out, Page(title, filled(sections), to_document(list(made)), answer), theme)
