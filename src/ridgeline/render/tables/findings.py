"""What a measurement or the main job found: tables and charts for the terminal, files and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.documents import to_document
from ...core.errors import InputError, RidgelineError
from ...core.files import write_text
from ...core.machine import Machine
from ...machines import write as save
from ...machines.calibrate import changes
from ...measure.session import Measured, remarks
from ..chart import Picture
from ..charts import measured
from ..draw import files
from ..draw import report as report_page
from ..draw.terminal import draw as draw_text
from ..table import Column, Table, draw

if TYPE_CHECKING:
    from ...app.run import Outcome

SUFFIXES = (".toml", ".json", ".html", ".svg", ".png", ".pdf", ".csv", ".md")


def ceilings(machine: Machine) -> Table:
    """Every ceiling that was measured, against the limit it has."""
    rows = []
    for row in measured.ceiling_rows(machine):
        unit = row.pop("unit")
        rows.append(row | {f"{key}:unit": unit for key in ("measured", "sustained", "limit")})
    columns = (
        Column("ceiling"), Column("measured"), Column("sustained"), Column("spread", "spread", percent=True, digits=2), Column("limit", "stated or derived"),
        Column("share", "of it", percent=True, digits=3), Column("how", "how"),
    )  # fmt: skip
    return Table(f"measured ceilings of {machine.title or machine.name}", columns, rows, machine.notes)


def _with(table: Table, notes: Sequence[str]) -> Table:
    return replace(table, notes=(*table.notes, *notes))


def latencies(machine: Machine) -> Table:
    rows = [
        {"level": level.name, "latency": level.latency.measured, "how": level.latency.measurement}
        for level in machine.levels
        if level.latency.measured
    ]
    if machine.launch.measured:
        rows.append({"level": "launch", "latency": machine.launch.measured, "how": machine.launch.measurement})
    return Table("latencies", (Column("level"), Column("latency", unit="s"), Column("how")), rows)


def against(earlier: Machine, now: Machine) -> Table:
    """Two measurements: what changed by more than both spreads."""
    rows = [
        {
            "ceiling": change.name, "first": change.first, "second": change.second, "ratio": change.ratio, "spread": change.spread,
            "verdict": "differs" if change.differs else "the same", "first:unit": change.unit, "second:unit": change.unit,
        }
        for change in changes(earlier, now)
    ]  # fmt: skip
    columns = (
        Column("ceiling"),
        Column("first", "earlier"),
        Column("second", "now"),
        Column("ratio", digits=3),
        Column("spread", "both spreads", percent=True, digits=2),
        Column("verdict"),
    )
    notes = []
    if earlier.title != now.title:
        notes.append(f"these are two machines: {earlier.title or earlier.name} and {now.title or now.name}")
    for unit in {**earlier.units, **now.units}:
        if earlier.units.get(unit) != now.units.get(unit):
            notes.append(
                f"the earlier one has {earlier.units.get(unit, 0)} of the {unit}s, this one {now.units.get(unit, 0)}"
            )
    return Table("against the earlier measurement", columns, rows, tuple(notes))


def plain_rows(found: Measured) -> Table:
    """One line per observation; what a CSV of a measurement holds."""
    rows = [
        {"name": item.name, "target": item.target, "best": item.best, "median": item.median, "spread": item.spread, "samples": len(item.samples), "rate": item.best_rate if item.amount else None}
        for item in found.observations
    ]  # fmt: skip
    columns = (
        Column("name"),
        Column("target"),
        Column("best", unit="s"),
        Column("median", unit="s"),
        Column("spread", percent=True, digits=2),
        Column("samples"),
        Column("rate", "amount/s"),
    )
    return Table(f"{len(rows)} observations", columns, rows, found.notes)


def collectives(found: Measured) -> list[Table]:
    """The machine of every rank, latency and bandwidth fitted per operation, then every size with its bus bandwidth."""
    fits = [item for item in found.observations if "alpha" in item.settings]
    sizes = [item for item in found.observations if "bus_bandwidth" in item.settings]
    first = found.observations[0].settings
    fitted = [
        {"op": item.settings["op"], "alpha": item.settings["alpha"], "beta": item.settings["beta"], "residual": item.settings["residual_relative"]}
        for item in fits
    ]  # fmt: skip
    measured_sizes = [
        {"op": item.settings["op"], "bytes": item.settings["bytes"], "median": item.median, "spread": item.spread, "bus": item.settings["bus_bandwidth"]}
        for item in sizes
    ]  # fmt: skip
    conditions = found.observations[0].conditions
    ways = [way["bandwidth"] for way in conditions.get("links", [])]
    ranks = [{**row, "next": way} for row, way in zip_longest(conditions.get("hosts", []), ways) if row]
    return [
        Table(
            "every rank's machine, all at the same time",
            (Column("rank"), Column("host"), Column("device"), Column("copy", "own copy", "B/s"), Column("product", "own product fp32", "flop/s"), Column("next", "to the next rank", "B/s")),
            ranks,
            found.notes,
        ),
        Table(
            f"{first['ranks']} ranks, {first['backend']}: time = alpha + bytes sent / beta",
            (Column("op"), Column("alpha", "latency alpha", "s"), Column("beta", "bandwidth beta", "B/s"), Column("residual", "residual", percent=True, digits=2)),
            fitted,
            tuple(conditions.get("gaps", ())),
        ),
        Table("every size: median of the slowest rank", (Column("op"), Column("bytes", unit="B", binary=True), Column("median", unit="s"), Column("spread", percent=True, digits=2), Column("bus", "bus bandwidth", "B/s")), measured_sizes),
    ]  # fmt: skip


def show(found: Measured, earlier: Machine | None = None) -> None:
    if found.machine is None:
        for table in collectives(found):
            draw(table)
            print()
        return
    draw(ceilings(found.machine))
    if (waits := latencies(found.machine)).rows:
        print()
        draw(waits)
    if earlier is not None:
        print()
        draw(against(earlier, found.machine))


def whole(found: Measured, earlier: Machine | None = None) -> dict[str, Any]:
    """The document of a measurement, with what changed against an earlier one where there is one."""
    told: dict[str, Any] = to_document(found)
    if earlier is not None and found.machine is not None:
        told["against"] = against(earlier, found.machine).document()
    return told


def pictures(machine: Machine, observations: Any) -> list[Picture]:
    """The charts there are data for."""
    return _drawable(
        lambda: measured.working_sets(machine, observations),
        lambda: measured.gemm_sizes(machine, observations),
        lambda: measured.shares(machine),
    )


def _drawable(*makers: Callable[[], Picture]) -> list[Picture]:
    """Those that can be drawn; one for which nothing was measured is left out."""
    made: list[Picture] = []
    for maker in makers:
        with suppress(InputError):
            made.append(maker())
    return made


@contextmanager
def _stoppable(out: Path) -> Iterator[None]:
    """Drawing takes seconds: Ctrl-C during it is told in words, and no half of the file is left."""
    try:
        yield
    except KeyboardInterrupt:
        raise RidgelineError(f"stopped by Ctrl-C while {out} was made; it was not written") from None


def write(found: Measured, out: Path, theme: str) -> None:
    with _stoppable(out):
        _write(found, out, theme)


def _write(found: Measured, out: Path, theme: str) -> None:
    if out.suffix == ".json":
        write_text(out, json.dumps(to_document(found), indent=1) + "\n")
    elif out.suffix in (".csv", ".md"):
        table = plain_rows(found)
        write_text(out, table.csv() if out.suffix == ".csv" else table.markdown())
    elif found.machine is None:
        _write_collectives(found, out, theme)
    elif out.suffix == ".toml":
        write_text(out, save.text(found.machine))
    elif out.suffix == ".html":
        sections = [
            report_page.Section("Ceilings", pictures=pictures(found.machine, found.observations), tables=[ceilings(found.machine), latencies(found.machine)]),
            report_page.Section("Observations", tables=[plain_rows(found)]),
        ]  # fmt: skip
        report_page.write(
            out, f"Measured: {found.machine.title or found.machine.name}", sections, to_document(found), theme
        )
    else:
        made = pictures(found.machine, found.observations)
        if not made:
            raise InputError(f"{out}: too little was measured for a picture; take .json or .toml")
        files.save(made[0], out, theme)


def _write_collectives(found: Measured, out: Path, theme: str) -> None:
    picture = measured.collectives(found.observations)
    if out.suffix == ".toml":
        raise InputError(f"{out}: collectives speak of several machines, which no machine file holds; take .json")
    if out.suffix == ".html":
        sections = [
            report_page.Section("Collectives", pictures=[picture], tables=collectives(found)),
            report_page.Section("Observations", tables=[plain_rows(found)]),
        ]
        report_page.write(out, picture.title, sections, to_document(found), theme)
    else:
        files.save(picture, out, theme)


# -- the main job ---------------------------------------------------------------------------------------------


def kernels(outcome: Outcome) -> Table:
    columns = (
        Column("name", "kernel"), Column("bound_predicted", "bound"), Column("limiter"), Column("floor_us", "floor us"), Column("predicted_us", "predicted us"),
        Column("measured_us", "measured us"), Column("spread", percent=True, digits=2), Column("error", "predicted/measured - 1", percent=True, digits=2),
        Column("share_of_roof", "of the roof", percent=True, digits=3), Column("band", "verdict"),
    )  # fmt: skip
    notes = [outcome.sentence]
    if outcome.sealed:
        notes.append(
            f"predictions sealed {outcome.sealed['time']} before the run, sha256 {outcome.sealed['hash'][:16]}"
        )
        notes += [outcome.sealed["note"]] if outcome.sealed["note"] else []
    names: dict[str, list[str]] = {}
    for item in outcome.items:
        for note in item["notes"]:
            names.setdefault(note, []).append(item["name"])
    notes += [f"{', '.join(mine)}: {note}" for note, mine in names.items()]
    return Table("predicted, sealed, run, reconciled", columns, list(outcome.items), tuple(notes))


def document(outcome: Outcome) -> dict[str, Any]:
    items = [
        {key: value for key, value in item.items() if key not in ("predicted", "measured")} for item in outcome.items
    ]
    return {
        "machine": outcome.machine.document(), "sealed": outcome.sealed, "items": items, "sentence": outcome.sentence,
        "observations": [item.document() for item in outcome.observations],
    }  # fmt: skip


def tell(outcome: Outcome, size: dict[str, Any]) -> None:
    draw(ceilings(outcome.machine))
    for note in remarks(outcome.observations):
        print(f"note: {note}")
    print()
    if not outcome.items:
        print(outcome.sentence)
        return
    draw(kernels(outcome))
    print()
    for picture in _drawable(lambda: measured.landing(outcome.machine, outcome.items)):
        print(draw_text(picture, **size))


def report(outcome: Outcome, out: Path) -> None:
    with _stoppable(out):
        _report(outcome, out)


def _report(outcome: Outcome, out: Path) -> None:
    ran = bool(outcome.items)
    landing = _drawable(lambda: measured.landing(outcome.machine, outcome.items))
    told = kernels(outcome)
    below = [replace(told, notes=told.notes[1:])] if ran else []  # the sentence stands at the head already
    machine = [_with(ceilings(outcome.machine), remarks(outcome.observations)), latencies(outcome.machine)]
    sections = [
        report_page.Section("Predicted and measured", outcome.sentence, landing, below),
        report_page.Section("This machine", pictures=pictures(outcome.machine, outcome.observations), tables=machine),
    ]
    report_page.write(out, f"ridgeline on {outcome.machine.title or outcome.machine.name}", sections, document(outcome))
