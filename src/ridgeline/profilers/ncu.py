"""Nsight Compute reports: work per class, bytes per level, time, clocks and signs of every kernel.

Read are the raw page (`ncu --csv --page raw`: one wide row per kernel, units in the second line), the details page (one
row per metric) and, through the `ncu` program, `.ncu-rep` files. What is taken, and how it follows
from ncu's metrics, is the table of `ncu_metrics`. A counter that read zero is 0; one that the report does not have is
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

from ..core.errors import InputError
from ..core.observation import Observation
from ..core.tabular import cells, decimal_mark, opened
from .ncu_kernel import GPU, PUSHED, STARTED, WANTED, Kernel, factor, observation
from .ncu_metrics import LABELS, METRICS, metrics

__all__ = ["HOW", "METRICS", "metrics", "program", "read", "recognises"]

HOW = "ncu --import REPORT.ncu-rep --csv --page raw > FILE.csv"
SUFFIXES = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")
MAGIC = "NVR\x00"
INSTALLED = (("/usr/local", "cuda*/bin/ncu"), ("/opt/nvidia/nsight-compute", "*/ncu"))
PEEK = 20  # kernels that show how numbers are written


def recognises(head: str, path: Path) -> bool:
    """A report, or a table whose header names kernels the way ncu does."""
    if path.name.removesuffix(".gz").endswith(SUFFIXES) or head.startswith(MAGIC):
        return True
    if "==PROF==" in head or "==ERROR==" in head:
        return True
    # The header of a raw page may be longer than the head, so its first cells have to do.
    return any(_is_header(cells(line[:4096])) for line in head.splitlines() if "Kernel Name" in line[:4096])


def read(path: Path) -> list[Observation]:
    """Every kernel of a report, in the order they ran."""
    if path.name.endswith(SUFFIXES) or _binary(path):
        return _read_report(path)
    with opened(path) as text:
        return _observations(text, path)


def _binary(path: Path) -> bool:
    with opened(path) as text:
        return text.read(len(MAGIC)) == MAGIC


# Reports ------------------------------------------------------------------------------------------------------------


def _read_report(path: Path) -> list[Observation]:
    """Through the ncu program, which reads reports of its own version and of older ones."""
    tool = program()
    if tool is None:
        raise InputError(f"'{path}' is a Nsight Compute report, and ncu is not here to read it; where it is, export it: {HOW}")  # fmt: skip
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", newline="") as out:
        words = [tool, "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        out.seek(0)
        if done.returncode:
            said = " ".join(f"{done.stderr} {out.read(400)}".split()) or "nothing"
            raise InputError(f"'{' '.join(words)}' failed and said: {said[:400]}; export the report with the ncu that wrote it: {HOW}")  # fmt: skip
        return _observations(out, path)


def program() -> str | None:
    """The ncu program: on the path, or where its installers put it, the newest first."""
    found = shutil.which("ncu")
    places = (
        ()
        if found
        else (place for root, pattern in INSTALLED for place in sorted(Path(root).glob(pattern), reverse=True))
    )
    return found or next((str(place) for place in places), None)


# Tables -------------------------------------------------------------------------------------------------------------


def _is_header(row: Sequence[str]) -> bool:
    return len(row) > 2 and row[0].strip().lstrip("\ufeff") == "ID" and "Kernel Name" in row


def _observations(lines: Iterable[str], path: Path) -> list[Observation]:
    said: dict[str, None] = {}
    kernels = _kernels(lines, said)
    first = list(islice(kernels, PEEK))
    mark = decimal_mark(text for kernel in first for text in kernel.texts)
    found = _built(chain(first, kernels), mark, path, said)
    errors = [line for line in said if line.startswith("==ERROR==")]
    if not found and errors:
        advice = f"collect again and export it: {HOW}"
        if any("NVGPUCTRPERM" in line or "permission" in line.lower() for line in errors):
            advice = "counters need permission (run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0); without it, time the kernels with ridgeline profile --with torch"
        raise InputError(f"'{path}' holds no kernels; ncu said: {errors[0]}; {advice}")
    return found


def _kernels(lines: Iterable[str], said: dict[str, None]) -> Iterator[Kernel]:
    """The kernels of one or several tables in one stream; what ncu or the program said between them is passed over.

    `said` gathers what is worth telling: errors of ncu, kernels that are cut off, units that are not known.
    """
    take: _Wide | _Long | None = None
    for line in lines:
        if line.startswith("=="):
            if line.startswith("==ERROR=="):
                said[line.strip()] = None
            continue
        row = cells(line)
        if _is_header(row):
            if take is not None:
                yield from take.end()
            take = _Long(row, said) if "Metric Name" in row else _Wide(row, said)
        elif take is not None and row:
            ended = line.endswith(("\n", "\r"))  # all but the last line are; that one can be cut off
            closed = not line.startswith('"') or line.rstrip(", ").endswith('"')
            yield from take.row(row, not ended and not (closed and len(row) >= take.width and row[take.width - 1]))
    if take is not None:
        yield from take.end()


IDENTITY = ("Kernel Name", "Block Size", "Grid Size", "CC", GPU)


class _Wide:
    """The raw page: a kernel is a row."""

    def __init__(self, header: list[str], said: dict[str, None]) -> None:
        self.said = said
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
                self.said[f"kernel {row[0]} is cut off in the file and left out"] = None
                return
            if not self.places:
                self._units([""] * self.width)
            fields = {name: row[place] for name, place in self.fields}
            yield Kernel(fields, self.names, self.factors, [row[place] for place in self.places])

    def _units(self, row: list[str]) -> None:
        scaled = {name: factor(row[place]) for name, place in self.wanted.items()}
        odd = [f"{name} in '{row[self.wanted[name]]}'" for name, scale in scaled.items() if scale is None]
        if odd:
            self.said[f"left out, because the unit is not known: {', '.join(odd)}"] = None
        self.names = tuple(name for name, scale in scaled.items() if scale is not None)
        self.places = [self.wanted[name] for name in self.names]
        self.factors = tuple(scale for scale in scaled.values() if scale is not None)

    def end(self) -> Iterator[Kernel]:
        return iter(())


class _Long:
    """The details page, or metrics asked for by name: a kernel is a run of rows."""

    def __init__(self, header: list[str], said: dict[str, None]) -> None:
        self.said = said
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
        self.named: dict[str, str] | None = None  # None: nothing read, or cut off
        self.found: dict[str, tuple[float, str]] = {}

    def row(self, row: list[str], cut: bool) -> Iterator[Kernel]:
        if not row[0].strip().isdigit():
            return
        key = (row[0], row[self.process] if self.process < len(row) else "")
        if key != self.key:
            yield from self.end()
            self.key, self.named = key, {name: row[place] for name, place in self.fields if place < len(row)}
        if cut:
            self.said[f"kernel {row[0]} is cut off in the file and left out"] = None
            self.named = None
        if len(row) < self.width:
            return  # the text of a rule may run over lines
        name, unit = row[self.metric], row[self.unit]
        name = name if "__" in name else LABELS.get((name, unit == "%"), "")
        if name in WANTED:
            scale = factor(unit)
            if scale is None:
                self.said[f"left out, because the unit is not known: {name} in '{unit}'"] = None
            else:
                self.found[name] = scale, row[self.value]

    def end(self) -> Iterator[Kernel]:
        named, found = self.named, self.found
        self.key, self.named, self.found = None, None, {}
        if named is not None:
            scales = tuple(scale for scale, _ in found.values())
            yield Kernel(named, tuple(found), scales, [text for _, text in found.values()])


def _identity(header: list[str]) -> list[tuple[str, int]]:
    return [(name, place) for place, name in enumerate(header) if name in IDENTITY or _is_range(name)]


def _is_range(name: str) -> bool:
    return PUSHED in name or STARTED in name


def _built(kernels: Iterable[Kernel], mark: str, path: Path, said: Iterable[str] = ()) -> list[Observation]:
    """Observations of the kernels; those without a time are left out, and the first one says so."""
    found: list[Observation] = []
    timeless = 0
    for kernel in kernels:
        made = observation(kernel, mark)
        if made is None:
            timeless += 1
        else:
            found.append(made)
    notes = [line for line in said if not line.startswith("==")]
    if timeless and not found:
        raise InputError(
            f"'{path}' has {timeless} kernels and no time for any of them; collect gpu__time_duration.sum too"
        )
    if timeless:
        notes.append(f"{timeless} kernels of this report have no time and are left out")
    if notes and found:
        found[0] = replace(found[0], notes=(*found[0].notes, *notes))
    return found
