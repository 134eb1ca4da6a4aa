"""Cases to sealed predictions, profiles to settled ones: the ways between tables of cases, observations and the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.errors import InputError, RidgelineError
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.units import MOST, number
from ..core.work import Program, Step
from ..machines import write as save
from ..machines.load import load
from ..prediction.host import way
from ..prediction.predict import Prediction, predict
from ..programs.ops import find
from .ledger import Broken, Ledger, Sealed, Settled, text_hash
from .ledger.encoding import parse_time
from .report import Report
from .report import reconcile as join_and_explain


def program(rows: Sequence[Mapping[str, Any]], name: str = "") -> Program:
    """Named steps of the cases' ops; a case without a name goes by its op, and a name met again is numbered."""
    steps: list[Step] = []
    seen: dict[str, int] = {}
    for index, row in enumerate(rows, 1):
        if not row.get("op"):
            raise InputError(f"row {index}, column op: is empty; the columns are {', '.join(map(str, row))[:200]}")
        try:
            op = find(str(row["op"]).strip())
            sizes = {key: row[key] for key in op.params if row.get(key) not in (None, "")}
            work = op(**{key: _plain(value) for key, value in sizes.items()})
        except RidgelineError as error:
            raise InputError(f"row {index}: {error}") from error
        told = str(row.get("name") or "").strip() or op.name
        seen[told] = seen.get(told, 0) + 1
        called = told if seen[told] == 1 else f"{told}#{seen[told]}"
        backend = str(row.get("backend") or "").strip()
        steps.append(Step(called, work, _count(row.get("count"), index), backend))
    if not steps:
        raise InputError("there are no cases; a table has one row per kernel, with the columns op, name and its sizes")
    return Program(tuple(steps), name)


def sent(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By step, how the cases say that their kernels come to the device: the column `sent`, where it is filled."""
    told = [str(row.get("sent") or "").strip() for row in rows]
    return {
        step.name: way(text, f"row {index}, column sent")
        for index, (text, step) in enumerate(zip(told, program(rows).steps, strict=True), 1)
        if text
    }


def _count(value: Any, index: int) -> float:
    """How often a case runs; once where nobody says."""
    if value is None or str(value).strip() == "":
        return 1.0
    found = _plain(value)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found <= MOST:
        raise InputError(f"row {index}, column count: is {str(value)!r}; how often a case runs is a number above 0")
    return float(found)


def _plain(value: Any) -> Any:
    """Numbers of a CSV come as text, written as people write sizes (`2^20`, `64Ki`); words stay words."""
    if isinstance(value, str):
        try:
            return number(value)
        except InputError:
            return value.strip()
    return value


def _of(rows: Sequence[Mapping[str, Any]], machine: Machine) -> None:
    """Refuses cases that name another machine than the one they are to be predicted for."""
    for index, row in enumerate(rows, 1):
        name = str(row.get("machine") or "").strip()
        if name and name != machine.name and load(name).name != machine.name:
            raise InputError(
                f"row {index}, column machine: is {name}, and asked for is {machine.name}; keep the cases of each machine in a table of their own"
            )


def rows_of(prediction: Prediction) -> list[dict[str, Any]]:
    """One row per step, as it is sealed."""
    rows = []
    for step, bound in zip(prediction.steps, prediction.bounds, strict=True):
        alone = predict(step.work, prediction.machine, bound.ceilings, backend=step.backend or None)
        backend = {"backend": step.backend} if step.backend else {}
        named = {"name": step.name, "family": step.work.family, "count": step.count, **backend}
        rows.append({**named, **next(alone.rows())})
    return rows


def seal(ledger: Ledger, rows: Sequence[Mapping[str, Any]], machine: Machine, note: str = "") -> Sealed:
    """Fix what the cases are predicted to take on a machine."""
    _of(rows, machine)
    prediction = predict(program(rows), machine)
    ways = sent(rows)
    told = [{**row, **({"sent": ways[row["name"]]} if row["name"] in ways else {})} for row in rows_of(prediction)]
    return ledger.seal(told, save.text(machine), machine.name, note=note)


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
            f"the seal {sealed.id} is for {sealed.machine['name']}, and asked for is {machine.name}; leave the machine out, or give --cases in place of --seal to compare with another one"
        )
    rows = [_unfold(row) for row in sealed.predictions]
    target = machine or load(sealed.machine["name"])
    prediction = predict(program(rows), target)
    same = text_hash(save.text(target)) == sealed.machine["hash"]
    told_of = {"id": sealed.id, "time": sealed.time, "machine_unchanged": same}
    report = join_and_explain(prediction, observations, sealed=told_of, sent=sent(rows))
    if not report.items:
        sides = "; ".join(f"{side}: {', '.join(names[:6])}" for side, names in report.unmatched.items())
        raise InputError(f"nothing settles the seal {sealed.id}, because {report.sentence} ({sides})")
    when, dated = measured_at(observations, paths)
    items = settled_items(report, sealed, when)
    tools = sorted({item.tool for item in observations})
    told = {"files": [path.name for path in paths], "tools": tools, "dated_by": dated}
    try:
        return Reconciled(report, ledger.settle(sealed.id, items, told))
    except Broken as error:
        return Reconciled(replace(report, sealed={**told_of, "broken": str(error)}), broken=str(error))


def _unfold(row: Mapping[str, Any]) -> dict[str, Any]:
    shape = row.get("shape") or {}
    told = {key: row[key] for key in ("sent", "backend") if key in row}
    return {"name": row["name"], "op": row["op"], "dtype": row["dtype"], "count": row.get("count", 1), **told, **shape}


def reconcile(rows: Sequence[Mapping[str, Any]], machine: Machine, observations: Sequence[Observation]) -> Reconciled:
    """The gap report of cases that nobody sealed."""
    _of(rows, machine)
    prediction = predict(program(rows), machine)
    return Reconciled(join_and_explain(prediction, observations, sealed=False, sent=sent(rows)))
