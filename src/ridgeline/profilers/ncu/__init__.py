"""Nsight Compute reports: work per class, bytes per level, time, clocks and signs of every kernel.

Read are the raw page (`ncu --csv --page raw`: one wide row per kernel, units in the second line), the details page (one
row per metric) and, through the `ncu` program, `.ncu-rep` files. What is taken, and how it follows
from ncu's metrics, is the table of `ncu.metrics`. A counter that read zero is 0; one that the report does not have is
absent; one that the report has without a value (n/a, nan, no data) is absent and named in a note.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from ...core.errors import InputError
from ...core.intake import clean
from ...core.observation import Observation
from ...core.tabular import cells, decimal_mark, head, opened
from ..rows import held, numbered
from .formulas import WANTED, unit_factor
from .kernel import GPU, PUSHED, STARTED, Kernel, observation
from .metrics import LABELS

HOW = "ncu --import REPORT.ncu-rep --csv --page raw > FILE.csv"
MAX_ID = 20  # characters of the number of a kernel
MAX_MESSAGES = 20  # of a report that are passed on as notes
PEEK = 20  # kernels that show how numbers are written
IDENTITY = ("Kernel Name", "Block Size", "Grid Size", "CC", GPU)
SUFFIXES = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")
MAGIC = "NVR\x00"
INSTALLED = (("/usr/local", "cuda*/bin/ncu"), ("/opt/nvidia/nsight-compute", "*/ncu"))


def recognises(start: str, path: Path) -> bool:
    """A report, or a table whose header names kernels the way ncu does."""
    if path.name.removesuffix(".gz").endswith(SUFFIXES) or start.startswith(MAGIC):
        return True
    if "==PROF==" in start or "==ERROR==" in start:
        return True
    # The header of a raw page may be longer than the head, so its first cells have to do.
    return any(_is_header(cells(line[:4096])) for line in start.splitlines() if "Kernel Name" in line[:4096])


def read(path: Path) -> list[Observation]:
    """Every kernel of a report, in the order they ran."""
    if path.name.endswith(SUFFIXES) or head(path).startswith(MAGIC):
        return _read_report(path)
    with opened(path) as text:
        return _observations(text, path)


def _read_report(path: Path) -> list[Observation]:
    """Through the ncu program, which reads reports of its own version and of older ones."""
    tool = program()
    if tool is None:
        raise InputError(f"'{path}' is a Nsight Compute report, and ncu is not installed to read it; export it where ncu is: {HOW}")  # fmt: skip
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", newline="") as out:
        words = [tool, "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        out.seek(0)
        if done.returncode:
            message = " ".join(f"{done.stderr} {out.read(400)}".split()) or "nothing"
            raise InputError(f"'{' '.join(words)}' failed: {message[:400]}; export the report with the ncu version that wrote it: {HOW}")  # fmt: skip
        return _observations(out, path)


def program() -> str | None:
    """The ncu program: on the path, or where its installers put it, the newest first."""
    installed = (place for root, pattern in INSTALLED for place in sorted(Path(root).glob(pattern), reverse=True))
    return shutil.which("ncu") or next((str(place) for place in installed), None)


def _is_header(row: Sequence[str]) -> bool:
    return len(row) > 2 and row[0].strip().lstrip("\ufeff") == "ID" and "Kernel Name" in row


def _observations(lines: Iterable[str], path: Path) -> list[Observation]:
    """Observations of the kernels; those without a time are left out, and the first one says so."""
    messages: dict[str, None] = {}
    kernels = _kernels(lines, messages, path)
    first = list(islice(kernels, PEEK))
    mark = decimal_mark(text for kernel in first for text in kernel.texts)
    every = [observation(kernel, mark) for kernel in held(chain(first, kernels), path)]
    timed = [item for item in every if item is not None]
    timeless = len(every) - len(timed)
    if timeless and not timed:
        raise InputError(
            f"'{path}' has {timeless} kernels and no time for any of them; collect gpu__time_duration.sum too"
        )
    errors = [line for line in messages if line.startswith("==ERROR==")]
    if not timed and errors:
        advice = f"collect again and export it: {HOW}"
        if any("NVGPUCTRPERM" in line or "permission" in line.lower() for line in errors):
            advice = "counters need permission (run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0); without it, time the kernels with ridgeline profile --with torch"
        raise InputError(f"'{path}' holds no kernels; ncu reported: {errors[0]}; {advice}")
    notes = [line for line in messages if not line.startswith("==")]
    if len(notes) > MAX_MESSAGES:
        notes[MAX_MESSAGES:] = [f"and {len(notes) - MAX_MESSAGES:,} more such notes"]
    if timeless:
        notes.append(f"{timeless} kernels have no time and are omitted")
    if notes and timed:
        timed[0] = replace(timed[0], notes=(*timed[0].notes, *notes))
    return timed


def _kernels(lines: Iterable[str], messages: dict[str, None], path: Path) -> Iterator[Kernel]:
    """The kernels of one or several tables in one stream; what ncu or the program said between them is passed over.

    `messages` gathers what is worth telling: errors of ncu, kernels that are cut off, units that are not known.
    """
    page: _RawPage | _DetailsPage | None = None
    for _, line in numbered(lines, path):
        if line.startswith("=="):
            if line.startswith("==ERROR=="):
                messages[line.strip()] = None
            continue
        row = cells(line)
        if _is_header(row):
            if page is not None:
                yield from page.end()
            page = _DetailsPage(row, messages) if "Metric Name" in row else _RawPage(row, messages)
        elif page is not None and row:
            ended = line.endswith(("\n", "\r"))  # all but the last line are; that one can be cut off
            closed = not line.startswith('"') or line.rstrip(", ").endswith('"')
            yield from page.row(row, not ended and not (closed and len(row) >= page.width and row[page.width - 1]))
    if page is not None:
        yield from page.end()


class _RawPage:
    """The raw page: a kernel is a row."""

    def __init__(self, header: list[str], messages: dict[str, None]) -> None:
        self.messages = messages
        self.width = len(header)
        self.fields = _identity(header)
        self.wanted = {name: place for place, name in enumerate(header) if name in WANTED}
        self.names: tuple[str, ...] = ()
        self.places: list[int] = []
        self.factors: tuple[float, ...] = ()

    def row(self, row: list[str], cut: bool) -> Iterator[Kernel]:
        if not row[0].strip():
            if len(row) == self.width:
                self._units(row)
        elif row[0].strip().isdigit():
            if cut or len(row) < self.width:
                self.messages[f"kernel {row[0]} is truncated and omitted"] = None
                return
            if not self.places:
                self._units([""] * self.width)
            fields = {name: row[place] for name, place in self.fields}
            yield Kernel(fields, self.names, self.factors, [row[place] for place in self.places])
        elif len(row) >= self.width:
            self.messages[f"row '{clean(row[0], MAX_ID)}' has no number of a kernel and is omitted"] = None

    def _units(self, row: list[str]) -> None:
        scaled = {name: unit_factor(row[place]) for name, place in self.wanted.items()}
        odd = [f"{name} in '{row[self.wanted[name]]}'" for name, scale in scaled.items() if scale is None]
        if odd:
            self.messages[f"omitted, unknown unit: {', '.join(odd)}"] = None
        self.names = tuple(name for name, scale in scaled.items() if scale is not None)
        self.places = [self.wanted[name] for name in self.names]
        self.factors = tuple(scale for scale in scaled.values() if scale is not None)

    def end(self) -> Iterator[Kernel]:
        return iter(())


class _DetailsPage:
    """The details page, or metrics asked for by name: a kernel is a run of rows."""

    def __init__(self, header: list[str], messages: dict[str, None]) -> None:
        self.messages = messages
        place = {name: place for place, name in enumerate(header)}
        missing = [name for name in ("Metric Name", "Metric Unit", "Metric Value") if name not in place]
        if missing:
            raise InputError(
                f"this table of Nsight Compute has no column {' or '.join(missing)}; export it again: {HOW}"
            )
        self.metric, self.unit, self.value = (place[f"Metric {word}"] for word in ("Name", "Unit", "Value"))
        self.fields = _identity(header)
        self.process = place.get("Process ID", 0)
        self.width = self.value + 1
        self.key: tuple[str, str] | None = None
        self.identity: dict[str, str] | None = None  # None: nothing read, or cut off
        self.metrics: dict[str, tuple[float, str]] = {}

    def row(self, row: list[str], cut: bool) -> Iterator[Kernel]:
        if not row[0].strip().isdigit():
            return
        key = (row[0], row[self.process] if self.process < len(row) else "")
        if key != self.key:
            yield from self.end()
            self.key, self.identity = key, {name: row[place] for name, place in self.fields if place < len(row)}
        if cut:
            self.messages[f"kernel {row[0]} is truncated and omitted"] = None
            self.identity = None
        if len(row) < self.width:
            return  # the text of a rule may run over lines
        name, unit = row[self.metric], row[self.unit]
        name = name if "__" in name else LABELS.get((name, unit == "%"), "")
        if name in WANTED:
            scale = unit_factor(unit)
            if scale is None:
                self.messages[f"omitted, unknown unit: {name} in '{unit}'"] = None
            else:
                self.metrics[name] = scale, row[self.value]

    def end(self) -> Iterator[Kernel]:
        identity, metrics = self.identity, self.metrics
        self.key, self.identity, self.metrics = None, None, {}
        if identity is not None:
            scales = tuple(scale for scale, _ in metrics.values())
            yield Kernel(identity, tuple(metrics), scales, [text for _, text in metrics.values()])


def _identity(header: list[str]) -> list[tuple[str, int]]:
    ranges = [name for name in header if PUSHED in name or STARTED in name]
    return [(name, place) for place, name in enumerate(header) if name in (*IDENTITY, *ranges)]
