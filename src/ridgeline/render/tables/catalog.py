"""Tables of the catalog: every machine in a line, one machine with all its figures, its peaks, the ops."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...core.dtypes import dtype as dtype_row
from ...core.errors import MissingFigure
from ...core.figure import Figure, Level
from ...core.machine import Machine
from ...core.units import show
from ...machines.files import listing
from ...prediction.answer_line import unit_name
from ...prediction.ceilings import PREFERRED
from ...programs.ops import OPS, Op
from ..table import Column, Table, columns, facts_table, percent

KINDS = ("stated", "derived", "measured")
MAIN_MIXES = ("read", "triad")  # access mixes whose bandwidth the first line of a machine shows
REACHED = percent("reached", "measured / limit")  # the limit is the stated or else the derived figure
DERIVED_FROM = columns("derivation", "source")
USES = {
    "fp64": "simulation, solvers",
    "fp32": "elementwise work, accumulation",
    "tf32": "fp32 matrices at tensor speed (stored in 4 bytes)",
    "bf16": "training, inference",
    "fp16": "inference, mixed-precision training",
    "fp8": "training and inference with scales",
    "mxfp8": "block-scaled training and inference",
    **dict.fromkeys(("mxfp6", "mxfp4", "nvfp4"), "block-scaled inference"),
    **dict.fromkeys(("int8", "int4"), "quantised inference"),
    "int1": "binary networks",
}


def machines_table() -> tuple[Table, list[dict[str, Any]]]:
    """Every machine in a line, and the list outsiders read; files that cannot be used are below, each with its fault."""
    listed = listing()
    rows: list[dict[str, Any]] = []
    for name, machine in listed.machines.items():
        main = machine.main
        rows.append({
            "name": name, "vendor": machine.vendor, "kind": machine.kind, "peak_bf16": _matrix_peak(machine, "bf16"),
            "peak_fp32": _matrix_peak(machine, "fp32"), "bandwidth": _published(main.bandwidth), "memory": main.name,
            "capacity": main.capacity.value(), "tdp": machine.tdp.value(), "title": machine.title,
        })  # fmt: skip
    shown = columns(
        "name", "vendor", "kind", Column("peak_bf16", "bf16 dense", "flop/s"), Column("peak_fp32", "fp32", "flop/s"),
        Column("bandwidth", "bandwidth", "B/s"), "memory", Column("capacity", "capacity", "B", binary=True), Column("tdp", "TDP", "W"),
    )  # fmt: skip
    note = "figures as stated, peaks are dense rates of the matrix unit; `ridgeline machines NAME` shows every ceiling and its source"
    broken = [f"{each.name}: broken, {each.file}: {each.complaint}" for each in listed.broken]
    kinds = Counter(machine.kind for machine in listed.machines.values())
    title = f"{len(rows)} machines: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}"
    unknown = dict.fromkeys(key for row in rows for key in row)
    document = rows + [
        {**unknown, "name": each.name, "broken": each.complaint, "file": each.file} for each in listed.broken
    ]
    return Table(title, shown, rows, (*broken, *listed.remarks, note)), document


def limit_of(figure: Figure) -> float | None:
    """The stated figure, else the derived one."""
    return figure.stated if figure.stated is not None else figure.derived


def _published(figure: Figure) -> float | None:
    """The limit, else a measurement: a list compares machines by one kind of figure."""
    limit = limit_of(figure)
    return figure.measured if limit is None else limit


def _matrix_peak(machine: Machine, dtype: str) -> float | None:
    try:
        return _published(machine.peaks[machine.engine("matrix", dtype)])
    except MissingFigure:
        return None


HERE, MEASURE = "here", " (run `ridgeline measure --quick`)"


def machine_lines(machine: Machine) -> list[str]:
    """What it is, and the ceilings it is known by."""
    about = [
        machine.title,
        machine.kind,
        machine.architecture,
        str(machine.released or ""),
        show(machine.tdp.value(), "W"),
    ]
    name = f"{machine.name}: {', '.join(text for text in about if text and text != '-')}"
    parts = []
    ridges = machine.ridges()
    engine = next((engine for engine in PREFERRED if engine in machine.peaks), next(iter(machine.peaks), None))
    if engine is not None:
        parts.append(f"{engine} {_by_kind(machine.peaks[engine], 'flop/s')}")
    if machine.levels:
        main = machine.main
        capacity = f", {show(main.capacity.value(), 'B', binary=True)}" if main.capacity.value() else ""
        known = main.bandwidth.value() is not None
        rate = _memory(main) if known else "bandwidth not known" + (MEASURE if machine.name.startswith(HERE) else "")
        parts.append(f"{unit_name(machine, main.name)} {rate}{capacity}")
    if engine in ridges:
        parts.append(f"ridge {show(ridges[str(engine)], 'flop/B')}{machine.ridge_mix()}")
    return [name, " · ".join(parts)]


def bandwidth_text(level: Level) -> str:
    """`46.1 GB/s read, 40.2 GB/s triad`: the mixes that were measured, as the best of all mixes says little of a kernel."""
    mixes = [(mix, level.mixes[mix].measured) for mix in MAIN_MIXES if mix in level.mixes]
    shown = [f"{show(rate, 'B/s')} {mix}" for mix, rate in mixes if rate]
    return ", ".join(shown) or show(level.bandwidth.value(), "B/s")


def _memory(level: Level) -> str:
    return _by_kind(level.bandwidth, "B/s", bandwidth_text(level) if level.bandwidth.kind() == "measured" else "")


def _by_kind(figure: Figure, unit: str, shown: str = "") -> str:
    """`834 TFLOP/s measured (989 TFLOP/s stated)`: the value in use, and the limit where that is another."""
    if figure.value() is None:
        return "-"
    text, limit = f"{shown or show(figure.value(), unit)} {figure.kind()}", limit_of(figure)
    limit_kind = "stated" if figure.stated is not None else "derived"
    return f"{text} ({show(limit, unit)} {limit_kind})" if figure.kind() == "measured" and limit else text


def machine_tables(machine: Machine) -> list[Table]:
    """One machine: what it is, its peaks, memory levels, links, other figures, and the documents behind them."""
    tables = [_facts(machine), _peaks(machine), _levels(machine)]
    if machine.links:
        tables.append(_links(machine))
    if machine.efficiency:
        rows = [
            {"name": name, "value": figure.measured, "source": _short(machine, figure.source)}
            for name, figure in machine.efficiency.items()
        ]
        title = "share of the ceilings that library kernels reach"
        tables.append(Table(title, columns("name", percent("value"), "source"), rows))
    if machine.conditions:
        conditions = {name.replace("_", " "): text for name, text in machine.conditions.items() if text}
        tables.append(facts_table("conditions of the measurement", conditions))
    documents = [{"name": name, "document": text} for name, text in machine.sources.items()]
    return [*tables, Table("sources", columns(Column("name", "source"), "document"), documents)]


def _facts(machine: Machine) -> Table:
    facts = {
        "vendor": machine.vendor,
        "kind": f"{machine.kind}{f', {machine.architecture}' if machine.architecture else ''}",
        "released": str(machine.released or "-"),
        "TDP": show(machine.tdp.value(), "W"),
    }
    facts |= {name.replace("_", " "): show(float(count)) for name, count in machine.units.items()}
    facts |= {f"clock, {name}": show(clock.value(), "Hz") for name, clock in machine.clocks.items()}
    facts |= {name.replace("_", " "): show(limit.value(), "B", binary=True) for name, limit in machine.limits.items()}
    facts |= {f"energy, {name}": show(figure.value(), figure.unit) for name, figure in machine.energy.items()}
    launches = {
        "launch latency": machine.launch, "dispatch cost per launch": machine.dispatch, "host time per eager call": machine.eager_call,
        "host time per backward call": machine.backward_call,
    }  # fmt: skip
    for name, figure in launches.items():
        if figure.value() is not None:
            facts[name] = show(figure.value(), "s")
    return facts_table("", facts, machine.notes)


def _short(machine: Machine, source: str) -> str:
    """A document by its short name in the file; the last table lists the documents once."""
    return next((name for name, text in machine.sources.items() if text == source), source)


def _figure_row(machine: Machine, name: str, figure: Figure, **more: Any) -> dict[str, Any]:
    limit = limit_of(figure)
    reached = figure.measured / limit if figure.measured and limit else None
    return {
        "name": name, "stated": figure.stated, "derived": figure.derived, "measured": figure.measured, "reached": reached,
        "source": _short(machine, figure.source), "derivation": figure.derivation or figure.measurement, **more,
    }  # fmt: skip


def _peaks(machine: Machine) -> Table:
    ridges = machine.ridges()
    rows = []
    for name, figure in machine.peaks.items():
        operations = ".int" in name or name.startswith("special")
        units = dict.fromkeys((f"{kind}:unit" for kind in KINDS), "op/s") if operations else {}
        rows.append(_figure_row(machine, name, figure, ridge=ridges.get(name), **units))
    shown = columns(
        Column("name", "peak"), *(Column(kind, unit="flop/s") for kind in KINDS), *([REACHED] if any(row["measured"] for row in rows) else []),
        Column("ridge", "ridge FLOP/B"), *DERIVED_FROM,
    )  # fmt: skip
    notes = tuple(f"{name}: {figure.differs}" for name, figure in machine.peaks.items() if figure.differs)
    return Table("peaks (dense unless named sparse)", shown, rows, notes)


def _levels(machine: Machine) -> Table:
    rows = [
        _figure_row(machine, level.name, level.bandwidth, capacity=level.capacity.value(), instances=level.instances, total=level.total,
                    latency=level.latency.value(), source=_short(machine, level.bandwidth.source or level.source))
        for level in machine.levels
    ]  # fmt: skip
    shown = columns(
        Column("name", "level"), Column("capacity", unit="B", binary=True), "instances", Column("total", unit="B", binary=True),
        *(Column(kind, unit="B/s") for kind in KINDS), *([REACHED] if any(row["measured"] for row in rows) else []),
        Column("latency", unit="s"), *DERIVED_FROM,
    )  # fmt: skip
    known = {level.name: "; ".join(filter(None, (level.technology, level.note))) for level in machine.levels}
    notes = tuple(f"{name}: {text}" for name, text in known.items() if text)
    return Table("memory, innermost first (bandwidth of all instances together)", shown, rows, notes)


def _links(machine: Machine) -> Table:
    rows = [
        _figure_row(
            machine, link.name, link.per_direction, topology=link.topology, links=link.links or None, devices=link.devices or None
        )
        for link in machine.links
    ]  # fmt: skip
    notes = tuple(f"{link.name}: {link.note}" for link in machine.links if link.note)
    shown = columns(
        Column("name", "link"), Column("stated", "one direction", "B/s"), "topology", Column("links", "links a device"),
        Column("devices", "devices joined"), "source",
    )  # fmt: skip
    return Table("links (one direction of all links of a device)", shown, rows, notes)


def peaks_table(machine: Machine) -> Table:
    """Every peak with bits, ratio to fp32 vector and ridge; 2:4-sparse rates are their own rows."""
    base = machine.peaks["vector.fp32"].value() if "vector.fp32" in machine.peaks else None
    ridges = machine.ridges()
    rows = []
    for name, figure in machine.peaks.items():
        unit, _, dtype = name.partition(".")
        value = figure.value()
        row = dict.fromkeys((f"{kind}:unit" for kind in KINDS), "op/s" if dtype.startswith("int") else "flop/s")
        ratio = value / base if value and base and unit != "special" else None
        figures = {kind: getattr(figure, kind) for kind in KINDS}
        rows.append({
            **row, **figures, "peak": name, "bits": dtype_row(dtype).bits if dtype else None, "ratio": ratio, "ridge": ridges.get(name), "use": USES.get(dtype, ""),
        })  # fmt: skip
    shown = columns(
        "peak",
        "bits",
        *(Column(kind, unit="flop/s") for kind in KINDS),
        Column("ratio", "x fp32"),
        Column("ridge", "ridge FLOP/B"),
        "use",
    )
    title = f"peak rates of {machine.name} (dense unless named sparse; an FMA is 2 flops)"
    return Table(title, shown, rows)


def ops_table() -> Table:
    rows = [
        {"op": name, "aliases": ", ".join(op.aliases), "parameters": op.signature[len(name) :], "what": op.summary}
        for name, op in sorted(OPS.items())
    ]
    title = f"{len(rows)} ops; `ridgeline ops NAME` shows one with its equation"
    return Table(title, columns("op", "aliases", "parameters", "what"), rows)


def op_table(op: Op) -> Table:
    rows = [
        {"name": param.name, "takes": param.words, "default": "needed" if param.required else _default(param.default)}
        for param in op.params.values()
    ]
    return Table("", columns("name", "takes", "default"), rows)


def op_document(op: Op) -> dict[str, Any]:
    params = [
        {
            "name": param.name, "kind": param.kind, "choices": list(param.choices), "required": param.required,
            "default": None if param.required else param.default,
        }
        for param in op.params.values()
    ]  # fmt: skip
    named = {"name": op.name, "aliases": list(op.aliases), "family": op.family, "category": op.category}
    return {**named, "doc": op.doc, "parameters": params}


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
