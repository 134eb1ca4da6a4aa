"""A file of the page's reader on a roofline: what it is, what it says, and the gap card of each of its kernels.

It is recognised from its content as the command line does: a profile or trace by the importers, a table of cases by its
column `op`, what ridgeline wrote by its schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ....core.cached import cached_property
from ....core.documents import to_document
from ....core.errors import InputError
from ....core.intake.source import head
from ....core.machine import Machine
from ....core.observation import Observation
from ....core.tabular import header
from ....core.timeline import Timeline
from ....core.units import percent, show
from ....gaps.item import Item
from ....gaps.kernels import (
    KernelReport,
    Profile,
    ProfiledKernel,
    Progress,
    kernel_at,
    no_progress,
    report_of_kernels,
)
from ....gaps.report import other_machines
from ....gaps.steps.report import ProgramReport, program_report
from ....machines.files import by_driver_name
from ....profilers.load import NoTimeline, document, load, timeline
from ....programs.cases import read_table
from ....render.chart import Picture
from ....render.charts.gaps import landed_item
from ....render.charts.kernels import kernels_chart, operators_chart
from ....render.charts.steps import phase_chart
from ....render.draw.html import Card, Page
from ....render.table import Table
from ....render.tables.kernels import kernels_answer, kernels_table
from ....render.tables.observed import observations_answer, observations_table
from ....render.tables.steps import op_table, step_tables
from ...collect import collect_next
from ...reports.gaps import kernel_page, kernel_rows, move_card, program_page
from .cases import CasesAnswer
from .gap_cards import gap_card
from .lookup import machine_of
from .pictures import pictured, tabled
from .recent import Asked
from .saved import SavedAnswer, saved_document
from .upload import Upload, upload_file

MAX_ROWS = 500  # of a table on the page; the chart and the files have all
MAX_CARDS = 24  # that come with the first answer; others are asked for
MAX_TABLES = 6
COUNTED = re.compile(r'"tool"\s*:')
OP = re.compile(r'"op"\s*:')
EVENTS = '"traceEvents"'


def answered(asked: Asked) -> dict[str, Any]:
    """What a file says on a machine; without one, on the machine that the file names, or else the question which it is."""
    return _answer(asked).answer()


def card(asked: Asked, place: int) -> dict[str, Any]:
    """The gap card of the kernel in a row of the answer's table."""
    return _answer(asked).card(place)


def page(asked: Asked) -> Page:
    """The self-contained report, as the commands write it."""
    return _answer(asked).page()


def data(asked: Asked) -> Any:
    """The document of the command with `--json`."""
    return _answer(asked).data()


class Answered(Protocol):
    """What a file of the page is answered with."""

    def answer(self) -> dict[str, Any]: ...
    def card(self, place: int) -> dict[str, Any]: ...
    def page(self) -> Page: ...
    def data(self) -> Any: ...


Source = Callable[[Machine | None], Answered]  # a file that is read, for the machine that is chosen


def _answer(asked: Asked) -> Answered:
    chosen = machine_of(asked.machine) if asked.machine else None
    reading = asked.reading
    with reading.lock:
        source = reading.source = reading.source or source_of(asked.upload, reading.count)
        if asked.machine not in reading.answers:
            reading.keep(asked.machine, source(chosen))
        answer: Answered = reading.answers[asked.machine]
    return answer


def source_of(upload: Upload, progress: Progress = no_progress) -> Source:
    """What an upload is, read; complaints about it come from here."""
    with upload_file(upload) as path:
        start = head(path)
        saved = saved_document(start, path)
        if saved is not None:
            return lambda chosen: SavedAnswer(upload.title, saved, chosen)
        suffix = _suffix_of_cases(start)
        if suffix:
            table = read_table(path.rename(path.with_suffix(suffix)))
            return lambda chosen: CasesAnswer.of(upload.title, table, chosen)
        return _recorded(upload.title, path, progress)


def _suffix_of_cases(start: str) -> str:
    """How a table of cases is written; empty for what is none. A profile may name ops too, and then says its tool or kernel."""
    text = start.lstrip("\ufeff \t\r\n")
    if text[:1] in ("[", "{"):
        if not OP.search(text) or COUNTED.search(text) or EVENTS in text:
            return ""
        first, _, rest = text.partition("\n")
        return (
            ".jsonl" if text[0] == "{" and first.rstrip().endswith("}") and rest.lstrip().startswith("{") else ".json"
        )
    names, _ = header(next(iter(text.splitlines()), "").lower())
    return ".csv" if "op" in names and "kernel" not in names else ""


def _recorded(title: str, path: Path, progress: Progress) -> Source:
    try:
        recorded = timeline(path)
    except NoTimeline:
        observations = load(path)
        conditions = observations[0].conditions
        known = _guessed(conditions)
        profiled = Profile.of(observations)

        def kernels(chosen: Machine | None) -> Answered:
            machine = chosen or known
            if machine is None:
                return Unplaced(title, observations, _device(conditions))
            return KernelsAnswer(title, profiled, machine, chosen is None, progress)

        return kernels
    named = _guessed(recorded.conditions)
    times = load(path) if named is None else ()

    def steps(chosen: Machine | None) -> Answered:
        machine = chosen or named
        return StepsAnswer(title, recorded, machine, chosen is None) if machine else Unplaced(title, times, _device(recorded.conditions))  # fmt: skip

    return steps


def _device(conditions: Mapping[str, Any]) -> str:
    """The device that a file names; empty where it names none."""
    names = (conditions.get(key) for key in ("gpu", "device"))
    return next((name for name in names if isinstance(name, str) and name.strip()), "")


def _guessed(conditions: Mapping[str, Any]) -> Machine | None:
    """The machine whose driver reports the name of the device that was recorded."""
    name = _device(conditions)
    known = by_driver_name(name, "gpu")[0] if name else None
    return machine_of(known.name) if known is not None else None


def made(*makers: Callable[[], Picture]) -> dict[str, Any]:
    """The first picture there are data for, as a part of an answer; else the reason why there is none."""
    reason = ""
    for make in makers:
        try:
            return {"chart": pictured(make()), "no_chart": ""}
        except InputError as error:
            reason = str(error)
    return {"chart": None, "no_chart": reason}


def other_device(notes: Sequence[str]) -> list[str]:
    """Warnings without the option of the command line that would answer them."""
    return [note.partition("; use --on")[0] for note in notes]


@dataclass(frozen=True)
class Unplaced:
    """Kernels of a machine that the file does not name: their times, and the question which machine it was."""

    title: str
    observations: Sequence[Observation]
    device: str

    def answer(self) -> dict[str, Any]:
        named = f"The file calls it {self.device}, which names none" if self.device else "The file does not say"
        return {
            "kind": "unplaced", "title": self.title, "machine": None, "question": f"Which machine did they run on? {named}.",
            "answer": [observations_answer(self.observations)], "table": tabled(observations_table(self.observations, MAX_ROWS)),
        }  # fmt: skip

    def card(self, place: int) -> dict[str, Any]:
        raise InputError("a gap card needs the machine that the kernels ran on: choose one")

    def page(self) -> Page:
        raise InputError("a report needs the machine that the kernels ran on: choose one")

    def data(self) -> Any:
        return document(self.observations)


@dataclass(frozen=True)
class KernelsAnswer:
    """A profile with counters: every kernel on the roofline, diagnosed, as `ridgeline import --on` has it."""

    title: str
    profile: Profile
    machine: Machine
    guessed: bool
    progress: Progress = no_progress

    @cached_property
    def report(self) -> KernelReport:
        return report_of_kernels(self.profile, self.machine, self.progress)

    def answer(self) -> dict[str, Any]:
        report, machine = self.report, self.machine
        conditions = (item.conditions for item in report.observations)
        return {
            "kind": "kernels", "title": self.title, "machine": machine.name, "guessed": self.guessed,
            "answer": [line.partition("; see the possible ones with -v")[0] for line in kernels_answer(report)],
            "warnings": other_device(other_machines(machine, conditions)), "count": len(report.kernels),
            "table": tabled(kernels_table(report, MAX_ROWS, clipped=False)), "next": collect_next(report),
            "cards": [self._card(kernel) for kernel in report.kernels[:MAX_CARDS]], **made(lambda: kernels_chart(report)),
        }  # fmt: skip

    def card(self, place: int) -> dict[str, Any]:
        if "report" in self.__dict__:
            return self._card(picked(self.report.kernels, place))
        return self._card(kernel_at(self.profile, self.machine, place))

    def _card(self, kernel: ProfiledKernel) -> dict[str, Any]:
        if kernel.gap is None:
            return _without_counters(kernel)
        item = Item(kernel.gap, kernel.advice)
        figures = kernel.document(kernel.typical)
        drawn = bool(kernel.gap.target.flops and kernel.gap.target.bytes)
        more = [
            ("MFU", percent(figures["mfu"]) if "mfu" in figures else ""),
            ("MBU", percent(figures["mbu"]) if "mbu" in figures else ""),
            ("op", f"{kernel.op.text} ({kernel.op.shown_by})" if kernel.op else ""),
            ("launches", f"{kernel.launches:,}, {show(kernel.time, 's')} in total" if kernel.launches > 1 else ""),
            ("kernel", kernel.kernel if kernel.kernel != kernel.name else ""),
        ]
        shown = {**to_document(item), "name": kernel.name}
        if not kernel.known:
            shown |= {"predicted_us": None, "intensity_algorithmic": None}  # of the counted work, not of an op
        if kernel.share is None:
            shown["share_of_roofline"] = None
        landed = landed_item(self.machine, item) if drawn else None
        return gap_card(self.machine, shown, landed, [(label, text) for label, text in more if text])

    def page(self) -> Page:
        return kernel_page(self.report)

    def data(self) -> Any:
        return kernel_rows(self.report)


def picked(items: Sequence[Any], place: int) -> Any:
    if not 0 <= place < len(items):
        raise InputError(f"there is no kernel {place + 1}; the file has {len(items)}")
    return items[place]


def _without_counters(kernel: ProfiledKernel) -> dict[str, Any]:
    time = kernel.typical.median
    sentence = f"{kernel.name}: nothing was counted but its time, so its place on the roofline is not known"
    return gap_card(None, {"name": kernel.name, "measured_us": time * 1e6, "sentence": sentence}, None)


@dataclass(frozen=True)
class StepsAnswer:
    """A trace: the step, its phases, the moves worth most, every operator; as `ridgeline reconcile` has it."""

    title: str
    recorded: Timeline
    machine: Machine
    guessed: bool

    @cached_property
    def report(self) -> ProgramReport:
        return program_report(self.recorded, self.machine)

    def answer(self) -> dict[str, Any]:
        report = self.report
        operators = op_table(report, None)
        rows = replace(operators, rows=operators.rows[:MAX_ROWS])
        return {
            "kind": "steps", "title": self.title, "machine": self.machine.name, "guessed": self.guessed,
            "answer": list(report.answer), "warnings": other_device(report.warnings), "count": len(report.items),
            "steps": [_card(move_card(report, move)) for move in report.moves], "table": tabled(rows),
            "phases": _phases(report), "tables": [tabled(table) for table in self._others()],
            "cards": [self.card(place) for place in range(min(MAX_CARDS, len(report.items)))], **made(lambda: operators_chart(report)),
        }  # fmt: skip

    def _others(self) -> list[Table]:
        """The tables of the report behind the operators."""
        others = [table for table in step_tables(self.report) if table.title != "Operators by device time per step"]
        return [replace(table, rows=table.rows[:MAX_ROWS]) for table in others][:MAX_TABLES]

    def card(self, place: int) -> dict[str, Any]:
        item = picked(self.report.by_time, place)
        group = item.group
        more = [
            ("phase", group.phase),
            ("module", group.module),
            ("line", ", ".join(group.sources[:2])),
            ("prediction", item.calibration),
            ("kernel", ", ".join(item.kernels[:2])),
        ]
        drawn = item.gap.target.flops and item.gap.target.bytes
        landed = landed_item(self.machine, item) if drawn else None
        shown = {**to_document(item), "intensity_observed": None}
        return gap_card(self.machine, shown, landed, [(label, text) for label, text in more if text])

    def page(self) -> Page:
        return program_page(self.report)

    def data(self) -> Any:
        return to_document(self.report)


def _card(shown: Card) -> dict[str, Any]:
    return {"title": shown.title, "value": shown.value, "lines": list(shown.lines), "label": shown.label}


def _phases(report: ProgramReport) -> dict[str, Any] | None:
    with suppress(InputError):
        return pictured(phase_chart(report))
    return None
