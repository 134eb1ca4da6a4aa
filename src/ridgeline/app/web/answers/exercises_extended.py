"""Exercises of the lessons about energy and communication: one dot that a slider moves over an extended roofline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ....core.dtypes import dtype as dtype_row
from ....core.errors import unknown
from ....core.units import percent, show
from ....prediction import extended
from ....prediction.extended import data_parallel_intensity, data_parallel_limit
from ....render.chart import Point
from ....render.charts import extended as charts
from ....render.charts.wording import link_title, rate
from .lookup import machine_of
from .pictures import pictured

DTYPE = "fp16"
GRADIENTS = "bf16"
PER_FLOP, PER_BYTE = 0.3e-12, 20e-12  # J: of the circuits alone, as textbooks have it, without static power
REMEDIES = (
    "more tokens per step, gradients in a narrower format, or tensor and pipeline parallelism instead of more replicas"
)
Document = dict[str, Any]


def energy(on: str, intensity: float, textbook: bool) -> Document:
    """FLOP per joule at an AI, and which share of the energy goes into moving bytes."""
    machine = machine_of(on)
    study = extended.energy(machine, DTYPE, PER_FLOP, PER_BYTE, 0.0) if textbook else extended.energy(machine, DTYPE)
    at = np.asarray([intensity], dtype=np.float64)
    bare, complete = (float(study.efficiency(at, static)[0]) for static in (False, True))
    ceiling, moving = 1 / study.per_flop, study.per_byte / intensity
    share = moving / (moving + study.per_flop)
    name = f"AI {show(intensity)}"
    dot = Point(intensity, bare, name, "", "value", name, {"flop_per_joule": bare})
    chart = charts.energy(replace(study, kernels=()))
    lines = [
        f"{name}: {show(bare, 'FLOP/J')}, {percent(bare / ceiling)} of the limit of {show(ceiling, 'FLOP/J')}.",
        f"{percent(share)} of the energy goes into moving bytes, {percent(1 - share)} into arithmetic; equal at {show(study.balance, 'flop/B')}.",
    ]
    if study.static:
        lines.append(f"With {show(study.static, 'W')} of static power, at the roofline: {show(complete, 'FLOP/J')}.")
    return {
        "answer": lines, "work_per_joule": bare, "with_static": complete, "balance": study.balance, "limit_per_joule": ceiling,
        "chart": pictured(replace(chart, points=(*chart.points, dot), notes=())),
    }  # fmt: skip


def communication(on: str, tokens: int, devices: int, link: str | None) -> Document:
    """Data-parallel training over a link: its communication intensity against the ridge, and how many devices it carries."""
    study = extended.communication(machine_of(on), DTYPE)
    link = link or next(iter(study.links))
    if link not in study.links:
        raise unknown("link", link, study.links)
    width = dtype_row(GRADIENTS).bytes
    at, ridge = data_parallel_intensity(tokens, devices, width), study.ridge(link)
    limit = data_parallel_limit(tokens, ridge, width)
    bound = "compute" if at >= ridge else "communication"
    reached = min(study.peak, at * study.links[link])
    name = f"{devices} GPUs"
    chart = charts.communication(replace(study, training={name: at}, carriers={name: link}))
    where = "above" if bound == "compute" else "below"
    lines = [
        f"{devices} GPUs over {link_title(link)}: {show(at, 'flop/B')}, {where} the ridge at {show(ridge, 'flop/B')}: {bound}-bound.",
        f"Attainable per GPU: {rate(reached, study.engine)}, {percent(reached / study.peak)} of the peak.",
        f"{tokens:,} tokens per step stay compute-bound up to {limit:,} {'GPU' if limit == 1 else 'GPUs'} on this link.",
    ]
    reach = next((each.devices for each in study.machine.links if each.name == link), None)
    if reach and devices > reach:
        lines.append(f"{link_title(link)} joins at most {reach} GPUs of this machine: beyond, the network counts.")
    if bound == "communication":
        lines.append(f"What helps: {REMEDIES}.")
    return {
        "answer": lines, "bound": bound, "intensity": at, "ridge": ridge, "limit": limit, "link": link,
        "links": [[each, link_title(each)] for each in study.links], "chart": pictured(replace(chart, notes=())),
    }  # fmt: skip
