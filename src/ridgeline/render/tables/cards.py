"""Cards: the catalog, one machine, the ops, the glossary, as Tables."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ...core.errors import MissingFigure, unknown
from ...core.figure import Figure
from ...core.machine import Machine
from ...core.units import show
from ...machines import files as machines
from ...programs.ops import OPS, Op
from ..table import Column, Table

REACHED = Column("reached", "reached", percent=True, digits=3)  # what was measured, of the stated or derived limit
GLOSSARY = Path(__file__).with_name("glossary.toml")


def _told(figure: Figure) -> float | None:
    """What the vendor says, else the counts, else a measurement: a list compares machines, so its figures are alike."""
    return next((value for value in (figure.stated, figure.derived, figure.measured) if value is not None), None)


def _matrix_peak(machine: Machine, dtype: str) -> float | None:
    try:
        return _told(machine.peaks[machine.engine("matrix", dtype)])
    except MissingFigure:
        return None


def catalog() -> tuple[Table, list[dict[str, Any]]]:
    """Every machine in a line, and the list outsiders read."""
    rows = []
    for machine in machines.everything():
        main = machine.main
        rows.append(
            {
                "name": machine.name,
                "vendor": machine.vendor,
                "kind": machine.kind,
                "peak_bf16": _matrix_peak(machine, "bf16"),
                "peak_fp32": _matrix_peak(machine, "fp32"),
                "bandwidth": _told(main.bandwidth),
                "memory": main.name,
                "capacity": main.capacity.value(),
                "tdp": machine.tdp.value(),
                "title": machine.title,
            }
        )
    columns = (
        Column("name"),
        Column("vendor"),
        Column("kind"),
        Column("peak_bf16", "bf16 dense", "flop/s"),
        Column("peak_fp32", "fp32", "flop/s"),
        Column("bandwidth", "bandwidth", "B/s"),
        Column("memory"),
        Column("capacity", "capacity", "B", binary=True),
        Column("tdp", "TDP", "W"),
    )
    note = (
        "dense rates of the unit matrix products run on; `ridgeline machines NAME` shows every ceiling and its source"
    )
    return Table(f"{len(rows)} machines", columns, rows, (note,)), rows


def _short(one: Machine, source: str) -> str:
    """A document by its short name in the file; the card lists the documents once, below."""
    return next((name for name, text in one.sources.items() if text == source), source)


def _figure_row(one: Machine, name: str, figure: Figure, **more: Any) -> dict[str, Any]:
    limit = figure.stated if figure.stated is not None else figure.derived
    return {
        "name": name,
        "stated": figure.stated,
        "derived": figure.derived,
        "measured": figure.measured,
        "reached": figure.measured / limit if figure.measured and limit else None,
        "source": _short(one, figure.source),
        "derivation": figure.derivation or figure.measurement,
        **more,
    }


def _units(peak: str) -> dict[str, str]:
    return (
        {f"{key}:unit": "op/s" for key in ("stated", "derived", "measured")}
        if ".int" in peak or peak.startswith("special")
        else {}
    )


def machine(one: Machine) -> list[Table]:
    """One machine: what it is, its peaks, memory levels, links, other figures, and the documents behind them."""
    facts: list[dict[str, Any]] = [
        {"fact": "vendor", "value": one.vendor},
        {"fact": "kind", "value": f"{one.kind}{f', {one.architecture}' if one.architecture else ''}"},
        {"fact": "released", "value": str(one.released or "-")},
        {"fact": "TDP", "value": show(one.tdp.value(), "W")},
    ]
    facts += [{"fact": name.replace("_", " "), "value": show(float(count))} for name, count in one.units.items()]
    facts += [{"fact": f"clock, {name}", "value": show(clock.value(), "Hz")} for name, clock in one.clocks.items()]
    facts += [
        {"fact": name.replace("_", " "), "value": show(limit.value(), "B", binary=True)}
        for name, limit in one.limits.items()
    ]
    facts += [
        {"fact": f"energy, {name}", "value": show(figure.value(), figure.unit)} for name, figure in one.energy.items()
    ]
    if one.launch.value() is not None:
        facts.append({"fact": "launch latency", "value": show(one.launch.value(), "s")})
    if one.dispatch.value() is not None:
        facts.append({"fact": "sending a kernel, on the host", "value": show(one.dispatch.value(), "s")})
    head = Table(f"{one.name}: {one.title}", (Column("fact"), Column("value")), facts, one.notes)
    ridges = one.ridges()
    peaks = Table(
        "peaks (dense unless the engine says sparse)",
        (
            Column("name", "peak"),
            Column("stated", unit="flop/s"),
            Column("derived", unit="flop/s"),
            Column("measured", unit="flop/s"),
            *((REACHED,) if any(figure.measured for figure in one.peaks.values()) else ()),
            Column("ridge", "ridge FLOP/B"),
            Column("derivation"),
            Column("source"),
        ),
        [_figure_row(one, name, figure, ridge=ridges.get(name)) | _units(name) for name, figure in one.peaks.items()],
        tuple(f"{name}: {figure.differs}" for name, figure in one.peaks.items() if figure.differs),
    )
    levels = Table(
        "memory, innermost first (bandwidth of all instances together)",
        (
            Column("name", "level"),
            Column("capacity", unit="B", binary=True),
            Column("instances"),
            Column("total", unit="B", binary=True),
            Column("stated", unit="B/s"),
            Column("derived", unit="B/s"),
            Column("measured", unit="B/s"),
            *((REACHED,) if any(level.bandwidth.measured for level in one.levels) else ()),
            Column("latency", unit="s"),
            Column("derivation"),
            Column("source"),
        ),
        [
            _figure_row(
                one,
                level.name,
                level.bandwidth,
                capacity=level.capacity.value(),
                instances=level.instances,
                total=level.total,
                latency=level.latency.value(),
                source=_short(one, level.bandwidth.source or level.source),
            )
            for level in one.levels
        ],
        tuple(f"{level.name}: {level.note}" for level in one.levels if level.note),
    )
    tables = [head, peaks, levels]
    if one.links:
        rows = [_figure_row(one, link.name, link.per_direction, topology=link.topology) for link in one.links]
        columns = (
            Column("name", "link"),
            Column("stated", "one direction", "B/s"),
            Column("topology"),
            Column("source"),
        )
        tables.append(
            Table("links", columns, rows, tuple(f"{link.name}: {link.note}" for link in one.links if link.note))
        )
    if one.efficiency:
        rows = [
            {"name": name, "value": figure.measured, "source": _short(one, figure.source)}
            for name, figure in one.efficiency.items()
        ]
        tables.append(
            Table(
                "fractions of the ceilings that library kernels reach",
                (Column("name"), Column("value", percent=True), Column("source")),
                rows,
            )
        )
    if one.conditions:
        told = [{"fact": name.replace("_", " "), "value": text} for name, text in one.conditions.items() if text]
        tables.append(Table("measured under these conditions", (Column("fact"), Column("value")), told))
    documents = [{"name": name, "document": text} for name, text in one.sources.items()]
    tables.append(Table("sources", (Column("name", "source"), Column("document")), documents))
    return tables


def ops() -> Table:
    rows = [
        {"op": name, "parameters": op.signature[len(name) :], "what": op.summary, "family": op.family}
        for name, op in sorted(OPS.items())
    ]
    return Table(
        f"{len(rows)} ops",
        (Column("op"), Column("parameters"), Column("what")),
        rows,
        ("`ridgeline ops NAME` shows one with its equation",),
    )


def op(one: Op) -> Table:
    rows = [
        {"name": param.name, "takes": param.words, "default": "needed" if param.required else _default(param.default)}
        for param in one.params.values()
    ]
    return Table("", (Column("name"), Column("takes"), Column("default")), rows)


def op_document(one: Op) -> dict[str, Any]:
    params = [
        {
            "name": param.name,
            "kind": param.kind,
            "choices": list(param.choices),
            "required": param.required,
            "default": None if param.required else param.default,
        }
        for param in one.params.values()
    ]
    return {"name": one.name, "family": one.family, "category": one.category, "doc": one.doc, "parameters": params}


def _default(value: Any) -> str:
    return "-" if value is None else ("yes" if value else "no") if isinstance(value, bool) else str(value)


def glossary(term: str = "") -> Table:
    document = tomllib.loads(GLOSSARY.read_text(encoding="utf-8"))
    terms: dict[str, str] = document["terms"]
    if term:
        wanted = {"ai": "arithmetic intensity", "ridge point": "ridge", "roof": "ceiling", "flops": "flop"}.get(
            term.lower(), term.lower()
        )
        if wanted not in terms:
            raise unknown("term", term, terms)
        terms = {wanted: terms[wanted]}
    reading = (
        () if term else ("", "further reading", *(f"  {title}: {why}" for title, why in document["reading"].items()))
    )
    return Table(
        "",
        (Column("term"), Column("meaning")),
        [{"term": name, "meaning": text} for name, text in terms.items()],
        reading,
    )
