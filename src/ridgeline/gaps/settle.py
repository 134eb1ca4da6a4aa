"""Cases to sealed predictions, profiles to settled ones: the ways between tables of cases, observations and the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.machine import Machine
from ..core.observation import Observation
from ..machines import write as save
from ..machines.load import load
from ..prediction.host import way
from ..prediction.predict import Prediction, predict
from ..programs.cases import program, unfold
from .ledger import Broken, Ledger, Sealed, Settled, text_hash
from .ledger.record import parse_time
from .report import Report
from .report import reconcile as join_and_explain

Rows = Sequence[Mapping[str, Any]]


def predicted(rows: Rows, machine: Machine) -> tuple[Prediction, dict[str, str]]:
    """What cases are predicted to take, and by step how their column `sent` says that their kernels are launched.

    Cases that name another machine than the one they are to be predicted for are refused.
    """
    for index, row in enumerate(rows, 1):
        name = str(row.get("machine") or "").strip()
        if name and name != machine.name and load(name).name != machine.name:
            text = f"row {index}, column machine: is {name}, and asked for is {machine.name}"
            raise InputError(f"{text}; keep the cases of each machine in a table of their own")
    steps = program(rows)
    prediction, sent = predict(steps, machine), {}
    for index, (row, step) in enumerate(zip(rows, steps.steps, strict=True), 1):
        if cell := str(row.get("sent") or "").strip():
            sent[step.name] = way(cell, f"row {index}, column sent")
    return prediction, sent


def rows_of(prediction: Prediction) -> list[dict[str, Any]]:
    """One row per step, as it is sealed."""
    rows = []
    for step, bound in zip(prediction.steps, prediction.bounds, strict=True):
        alone = predict(step.work, prediction.machine, bound.ceilings, backend=step.backend or None)
        backend = {"backend": step.backend} if step.backend else {}
        named = {"name": step.name, "family": step.work.family, "count": step.count, **backend}
        rows.append({**named, **next(alone.rows())})
    return rows


def seal(ledger: Ledger, rows: Rows, machine: Machine, note: str = "") -> Sealed:
    """Fix what the cases are predicted to take on a machine."""
    prediction, sent = predicted(rows, machine)
    sealed = [{**row, **({"sent": sent[row["name"]]} if row["name"] in sent else {})} for row in rows_of(prediction)]
    return ledger.seal(sealed, save.text(machine), machine.name, note=note)


@dataclass(frozen=True)
class Reconciled:
    report: Report
    settled: Settled | None = None
    broken: str = ""  # why the ledger took nothing


def measured_at(observations: Sequence[Observation], paths: Sequence[Path] = ()) -> tuple[str | None, str]:
    """When the measurement began and where that is from: the tool, else its first file, by when it was last written."""
    dates = [str(item.conditions["date"]) for item in observations if item.conditions.get("date")]
    known = [(time, date) for date in dates if (time := parse_time(date)) is not None]
    if known:
        return datetime.fromisoformat(min(known)[1]).isoformat(), "the tool"
    written = [path.stat().st_mtime for path in paths if path.is_file()]
    if written:
        return datetime.fromtimestamp(min(written), UTC).isoformat(), "the file, when it was last written"
    return None, "nobody"


def settled_items(report: Report, sealed: Sealed, when: str | None) -> list[dict[str, Any]]:
    """What the ledger keeps of a report, each item with the very row it was compared with."""
    rows = {str(row["name"]): row for row in sealed.predictions}
    return [
        {
            "name": item.name,
            "measured_us": item.gap.measured * 1e6,
            "measured_at": when,
            "bound_observed": item.gap.regime.bound,
            "cause": item.top.cause if item.top and item.top.shown else "",
            **({"steps": item.gap.target.steps} if item.gap.target.fused else {"prediction": rows[item.name]}),
        }
        for item in report.items
    ]


def settle(
    ledger: Ledger,
    sealed: Sealed,
    observations: Sequence[Observation],
    machine: Machine | None = None,
    paths: Sequence[Path] = (),
) -> Reconciled:
    """Reconcile what was observed with what was sealed, and put the result beside it.

    The gaps are explained with the machine as it is now; the ledger compares with the rows as they were sealed. A broken
    ledger takes nothing, and the report is all there is.
    """
    if not sealed.predictions:
        raise Broken(f"the seal {sealed.id} can no longer be read; see what was changed with `ridgeline ledger verify`")
    if machine is not None and machine.name != sealed.machine["name"]:
        raise InputError(
            f"the seal {sealed.id} is for {sealed.machine['name']}, and asked for is {machine.name}; leave the machine out, or reconcile unsealed cases to compare with another one"
        )
    target = machine or load(sealed.machine["name"])
    prediction, sent = predicted([unfold(row) for row in sealed.predictions], target)
    same = text_hash(save.text(target)) == sealed.machine["hash"]
    seal_facts = {"id": sealed.id, "time": sealed.time, "machine_unchanged": same}
    report = join_and_explain(prediction, observations, sealed=seal_facts, sent=sent)
    if not report.items:
        sides = "; ".join(f"{side}: {', '.join(names[:6])}" for side, names in report.unmatched.items())
        raise InputError(f"nothing settles the seal {sealed.id}, because {report.sentence} ({sides})")
    when, dated = measured_at(observations, paths)
    items = settled_items(report, sealed, when)
    tools = sorted({item.tool for item in observations})
    origin = {"files": [path.name for path in paths], "tools": tools, "dated_by": dated}
    try:
        return Reconciled(report, ledger.settle(sealed.id, items, origin))
    except Broken as error:
        return Reconciled(replace(report, sealed={**seal_facts, "broken": str(error)}), broken=str(error))


def reconcile(rows: Rows, machine: Machine, observations: Sequence[Observation]) -> Reconciled:
    """The gap report of cases that nobody sealed."""
    prediction, sent = predicted(rows, machine)
    return Reconciled(join_and_explain(prediction, observations, sealed=False, sent=sent))
