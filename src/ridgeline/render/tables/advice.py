"""Reference tables of the advice: every move, and the decision flow."""

from __future__ import annotations

from ...core.machine import Machine
from ...core.units import show
from ...gaps import rules
from ..table import Table, columns

RIDGES_SHOWN = 6


def moves_table(machine: Machine) -> Table:
    """Every move advice knows, where it leads on the chart, when it helps and what limits it; the same for any machine."""
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
    return Table("decision flow", columns("step", "do"), rows, (f"ridges of {machine.name} in FLOP/B: {ridges}",))
