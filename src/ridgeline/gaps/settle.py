"""Seal the predictions of cases, settle them with profiles: between tables of cases, observations and the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError
from ..core.intake import Door, at
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.timeline import Timeline
from ..machines import write as save
from ..machines.load import load
from ..prediction.host import way
from ..prediction.kernel_steps import ran_with
from ..prediction.predict import Prediction, predict
from ..programs.cases import program, unfold
from .ledger import Broken, Ledger, Sealed, Settled, text_hash
from .ledger.record import parse_time

if TYPE_CHECKING:  # sealing does without what explains a gap
    from .report import Report

Rows = Sequence[Mapping[str, Any]]
CASES = "the cases"  # what rows are called that come from no file


def predicted(rows: Rows, machine: Machine, where: str = CASES) -> tuple[Prediction, dict[str, str]]:
    """The prediction of cases, and by step how its kernels are launched (column `sent`); `where` is named in complaints.

    Cases that name another machine are refused.
    """
    for index, row in enumerate(rows, 1):
        name = str(row.get("machine") or "").strip()
        if name and name != machine.name and load(name).name != machine.name:
            text = f"{where}: row {index}, column machine: {name}, but the predictions are for {machine.name}"
            raise InputError(f"{text}; use one table of cases per machine")
    steps = program(rows, where=where)
    prediction, sent = predict(steps, machine), {}
    for index, (row, step) in enumerate(zip(rows, steps.steps, strict=True), 1):
        if cell := str(row.get("sent") or "").strip():
            sent[step.name] = way(cell, f"{where}: row {index}, column sent")
    return prediction, sent


def rows_of(prediction: Prediction, where: str = CASES) -> list[dict[str, Any]]:
    """One row per step, as it is sealed; a step that is several cases is refused."""
    rows, door = [], Door(where)
    for number, (step, bound) in enumerate(zip(prediction.steps, prediction.bounds, strict=True), 1):
        alone = predict(ran_with(step.work, step.backend), prediction.machine, bound.ceilings)
        backend = {"backend": step.backend} if step.backend else {}
        named = {"name": step.name, "family": step.work.family, "count": step.count, **backend}
        first, *others = alone.rows()
        if others:
            door.complain(at(number), f"has lists of sizes, {1 + len(others)} cases in one; give each case a row")
        rows.append({**named, **first})
    door.close()
    return rows


def seal(
    ledger: Ledger,
    rows: Rows,
    machine: Machine,
    note: str = "",
    show: Callable[[Sealed], object] = lambda _sealed: None,
    where: str = CASES,
) -> Sealed:
    """Seal the predictions of cases on a machine; `show` gets the seal before it is committed."""
    prediction, sent = predicted(rows, machine, where)
    sealed = [
        {**row, **({"sent": sent[row["name"]]} if row["name"] in sent else {})} for row in rows_of(prediction, where)
    ]
    return ledger.seal(sealed, save.text(machine), machine.name, note=note, show=show)


@dataclass(frozen=True)
class Reconciled:
    report: Report
    settled: Settled | None = None
    broken: str = ""  # why nothing was added to the ledger


def measured_at(measured: Sequence[Observation | Timeline], paths: Sequence[Path] = ()) -> tuple[str | None, str]:
    """Start of the measurement and its source: the tool, else the modification time of the first file."""
    dates = [str(item.conditions["date"]) for item in measured if item.conditions.get("date")]
    known = [(time, date) for date in dates if (time := parse_time(date)) is not None]
    if known:
        return datetime.fromisoformat(min(known)[1]).isoformat(), "the tool"
    written = [path.stat().st_mtime for path in paths if path.is_file()]
    if written:
        return datetime.fromtimestamp(min(written), UTC).isoformat(), "modification time of the file"
    return None, "unknown"


def settled_items(report: Report, sealed: Sealed, when: str | None) -> list[dict[str, Any]]:
    """The items of a report for the ledger, each with the sealed row it was compared with; doubtful joins are left out."""
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
        for item in report.trusted
    ]


def settle(
    ledger: Ledger,
    sealed: Sealed,
    observations: Sequence[Observation],
    machine: Machine | None = None,
    paths: Sequence[Path] = (),
    show: Callable[[Reconciled], object] = lambda _reconciled: None,
) -> Reconciled:
    """Reconcile observations with a seal, and add the result to the ledger.

    The gaps are explained with the present machine file; the ledger compares with the rows as sealed. Nothing is added
    to a broken ledger, but the report is made. `show` gets the result before it is committed.
    """
    if not sealed.predictions:
        raise Broken(f"seal {sealed.id} cannot be read; find the damaged record with `ridgeline ledger verify`")
    if machine is not None and machine.name != sealed.machine["name"]:
        raise InputError(
            f"seal {sealed.id} is for {sealed.machine['name']}, not {machine.name}; omit the machine, or compare unsealed cases"
        )
    target = machine or load(sealed.machine["name"])
    prediction, sent = predicted([unfold(row) for row in sealed.predictions], target)
    same = text_hash(save.text(target)) == sealed.machine["hash"]
    seal_facts = {"id": sealed.id, "time": sealed.time, "machine_unchanged": same}
    from .report import reconcile as join_and_explain

    report = join_and_explain(prediction, observations, sealed=seal_facts, sent=sent)
    if not report.items:
        sides = "; ".join(f"{side}: {', '.join(names[:6])}" for side, names in report.unmatched.items())
        raise InputError(f"seal {sealed.id} was not settled: {report.sentence} ({sides})")
    if not report.trusted:
        doubtful = ", ".join(f"{item.name} by {item.gap.how}" for item in report.items[:6])
        hint = "name ranges or rows of the profile as the cases are named"
        raise InputError(f"seal {sealed.id} was not settled: every join is doubtful ({doubtful}); {hint}")
    when, dated = measured_at(observations, paths)
    items = settled_items(report, sealed, when)
    tools = sorted({item.tool for item in observations})
    origin = {"files": [path.name for path in paths], "tools": tools, "dated_by": dated}
    try:
        settled = ledger.settle(sealed.id, items, origin, lambda settled: show(Reconciled(report, settled)))
        return Reconciled(report, settled)
    except Broken as error:
        broken = Reconciled(replace(report, sealed={**seal_facts, "broken": str(error)}), broken=str(error))
        show(broken)
        return broken


def reconcile(rows: Rows, machine: Machine, observations: Sequence[Observation], where: str = CASES) -> Reconciled:
    """The gap report of unsealed cases."""
    prediction, sent = predicted(rows, machine, where)
    from .report import reconcile as join_and_explain

    return Reconciled(join_and_explain(prediction, observations, sealed=False, sent=sent))
