"""The card of one case: its facts, the source of each number, and changes priced before they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....core.errors import InputError, RidgelineError
from ....core.machine import Machine
from ....core.units import show
from ....prediction import whatif
from ....prediction.answer import Answer
from ....programs.ops import Op
from ....render.charts import find
from ....render.tables.prediction import card as facts_card
from ....render.tables.prediction import explanation, levels_table
from ....render.tables.studies import changes_lines, changes_table
from .explore import answered
from .lookup import case_of, machine_names, machine_of
from .pictures import pictured, tabled

# Changes that are offered where the op takes them; each is priced alone, from the case as it is.
OFFERED = (
    "batch=8", "quantize=fp8", "quantize=weights:fp8", "quantize=weights:int4", "quantize=kv:fp8", "tile", "tensor",
    "fuse=gelu", "fuse=add", "fuse=rmsnorm", "graph", "split=8", "bandwidth=2", "compute=2",
)  # fmt: skip
MAX_CHAIN = 8  # changes applied one after the other


def card(op_name: str, given: Mapping[str, Any], machine_name: str, ceilings: str | None) -> dict[str, Any]:
    """Facts, explanation, and the price of every change that is offered."""
    op, values = case_of(op_name, given)
    made = answered(op, values, machine_name, ceilings)
    return {
        "answer": made.lines,
        "facts": tabled(facts_card(made)),
        "explain": [tabled(table) for table in (levels_table(made), *explanation(made))],
        "changes": _offers(made, op, values, machine_of(machine_name), ceilings),
    }


def changed(
    op_name: str, given: Mapping[str, Any], machine_name: str, ceilings: str | None, chain: Sequence[str]
) -> dict[str, Any]:
    """A chain of changes as `ridgeline whatif` prices it: the lines, the table, and numbered arrows on the plane."""
    op, values = case_of(op_name, given)
    if len(chain) > MAX_CHAIN:
        raise InputError(f"at most {MAX_CHAIN} changes in a chain, got {len(chain)}")
    for word in chain:
        _refuse_files(word)
    stops = whatif.apply(_case(op, values, machine_of(machine_name), ceilings), whatif.parse(",".join(chain)))
    answer = {"answer": changes_lines(stops), "table": tabled(changes_table(stops)), "chart": None}
    if stops[0].flops:
        answer["chart"] = pictured(find("changes")(machine_of(machine_name), stops=stops))
    return answer


def _refuse_files(word: str) -> None:
    """A machine is one by its name: on the command line the same word may be a file."""
    name, _, value = (part.strip() for part in word.partition("="))
    if name == "machine" and value not in machine_names():
        machine_of(value)  # raises, and names the nearest


def _case(op: Op, values: dict[str, Any], machine: Machine, ceilings: str | None) -> whatif.Case:
    return whatif.Case(machine, op, values, options={"ceilings": ceilings} if ceilings else {})


def _offers(
    made: Answer, op: Op, values: dict[str, Any], machine: Machine, ceilings: str | None
) -> list[dict[str, Any]]:
    """Largest gain first; a change that the op or the machine does not take is left out."""
    rows = []
    for text in OFFERED:
        try:
            stop = whatif.apply(_case(op, values, machine, ceilings), whatif.parse(text))[-1]
        except RidgelineError:
            continue
        if stop.why:
            continue
        each = " each" if stop.case.amount != 1 else ""
        time, bound = f"{show(stop.unit_time, 's')}{each}", stop.bound_words
        row = {"change": text, "name": stop.name, "ratio": stop.ratio, "time": time, "bound": bound, "moves": stop.direction}  # fmt: skip
        rows.append(row | {"speedup": f"{stop.ratio:.3g}x"})
    return sorted(rows, key=lambda row: -row["ratio"])
