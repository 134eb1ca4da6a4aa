"""The named tables, computed from the ops and a machine, and the glossary."""

from __future__ import annotations

import tomllib
from pathlib import Path

from ...core.errors import unknown
from ...core.machine import Machine
from ...core.units import show
from ...gaps import rules
from ...prediction import locality, studies
from ..named import Named, by_name
from ..table import Table, columns
from .catalog import peaks_table
from .studies import kernel_table, production_table, regimes_table, tiling_table

GLOSSARY = Path(__file__).with_name("glossary.toml")
SYNONYMS = {
    "ai": "arithmetic intensity", "ridge point": "ridge", "roof": "ceiling", "flops": "flop", "busbw": "bus bandwidth",
    "model flops utilization": "mfu", "model bandwidth utilization": "mbu", "tail effect": "wave quantization",
}  # fmt: skip
RIDGES_SHOWN = 6


def glossary(term: str = "") -> Table:
    """All terms, or one."""
    document = tomllib.loads(GLOSSARY.read_text(encoding="utf-8"))
    terms: dict[str, str] = document["terms"]
    reading = ("", "further reading", *(f"  {title}: {why}" for title, why in document["reading"].items()))
    if term:
        name = SYNONYMS.get(term.lower(), term.lower())
        if name not in terms:
            raise unknown("term", term, terms)
        terms, reading = {name: terms[name]}, ()
    rows = [{"term": name, "meaning": text} for name, text in terms.items()]
    title = "" if term else f"{len(rows)} terms; `ridgeline glossary TERM` shows one"
    return Table(title, columns("term", "meaning"), rows, reading, headed=not term)


def moves_table(machine: Machine) -> Table:
    """Every move that advice may suggest: its direction on the chart, when it helps and what limits it."""
    rows = [
        {"move": row.name, "direction": row.direction, "changes": row.changes, "when": row.when, "limit": row.limit, "bound": ", ".join(row.bounds)}
        for row in rules.catalog().values()
    ]  # fmt: skip
    return Table("moves", columns("move", "direction", "bound", "when", "changes", "limit"), rows)


def flow_table(machine: Machine) -> Table:
    """The decision flow, from what to measure to the moves of either answer, by this machine's ridge."""
    flow = rules.flow()
    rows = [{"step": "measure", "do": str(flow["measure"])}, {"step": "ask", "do": str(flow["question"])}]
    rows += [{"step": side, "do": row.name} for side in ("memory", "compute") for row in flow[side]]
    rows += [{"step": "decoding", "do": row.name} for row in rules.decode()]
    ridges = ", ".join(f"{name} {show(value)}" for name, value in list(machine.ridges().items())[:RIDGES_SHOWN])
    return Table(
        f"decision flow for {machine.name}",
        columns("step", "do"),
        rows,
        (f"ridges of {machine.name} in FLOP/B: {ridges}{machine.ridge_mix()}",),
    )


TABLES: dict[str, Named[Table]] = by_name(
    "table",
    [
        Named("common", "vector add to GEMM: flops, bytes, AI, bound", kernel_table, studies.common_ops),
        Named("blas", "BLAS levels 1 to 3", kernel_table, studies.blas_ops),
        Named("typical", "eight deep-learning ops with their bound", kernel_table, studies.typical_ops),
        Named("batches", "a linear layer against batch size", kernel_table, studies.batches),
        Named("peaks", "every precision: stated, derived, measured peak, ratio to fp32, ridge", peaks_table),
        Named("tiling", "tile sizes: working set, level, AI, bound", tiling_table, locality.tiling),
        Named("regimes", "the three regimes and their time formulas", regimes_table),
        Named("kernels", "production kernels and the published share of the ceiling they reach", production_table, studies.production_kernels),
        Named("moves", "optimizations: direction, when they help, what limits them", moves_table),
        Named("flow", "the decision flow: measure, ask, move", flow_table),
    ],
)  # fmt: skip
