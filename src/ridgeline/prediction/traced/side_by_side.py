"""SideBySide: one program on several machines, in several modes, formats and sizes, each against the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.units import rounded_text, show
from .result import ProgramPrediction


@dataclass(frozen=True)
class Case:
    """A program and what distinguishes it from the others: machine, mode, and where given dtype and a size."""

    setting: Mapping[str, Any]
    program: ProgramPrediction

    DOCUMENT: ClassVar = (
        "setting", "totals=program.totals", "regime=program.regime", "bound_shares=program.bound_shares",
        "memory=program.memory.at_peak", "fits=program.fits", "uncounted=program.uncounted", "notes=program.notes",
    )  # fmt: skip

    @property
    def label(self) -> str:
        values = [
            f"{name} {value}" if name not in ("machine", "mode", "dtype") else str(value)
            for name, value in self.setting.items()
        ]
        return ", ".join(values)


@dataclass(frozen=True)
class SideBySide:
    name: str
    cases: tuple[Case, ...]
    swept: str = ""  # the argument of the target that is swept

    DOCUMENT: ClassVar = ("name", "swept", "cases")

    @property
    def varying(self) -> list[str]:
        """Names of the settings in which the cases differ."""
        names = list(self.cases[0].setting)
        return [name for name in names if len({case.setting[name] for case in self.cases}) > 1]

    @property
    def shared(self) -> list[str]:
        """The settings that all cases have."""
        first = self.cases[0].setting
        return [str(first[name]) for name in first if name not in self.varying]

    def speedup(self, case: Case) -> float | None:
        """Wall time of the first case over that of this one, for the same amount of what is swept."""
        first = self.cases[0]
        if not case.program.wall:
            return None
        amount = case.setting[self.swept] / first.setting[self.swept] if self.swept else 1.0
        return first.program.wall / case.program.wall * amount

    def rate(self, case: Case) -> float | None:
        """What is swept per second: samples of a batch, say."""
        return case.setting[self.swept] / case.program.wall if self.swept and case.program.wall else None

    @property
    def fastest(self) -> Case:
        """Of those that fit in memory, where any does."""
        usable = [case for case in self.cases if case.program.fits is not False] or list(self.cases)
        return max(usable, key=lambda case: self.speedup(case) or 0.0)

    def answer(self) -> list[str]:
        """The best case against the first, then the settings that all of them share."""
        best = self.fastest
        wall = show(best.program.wall, "s", 3)
        rate = f", {show(self.rate(best))} {self.swept}/s" if self.swept else ""
        first = self.cases[0]
        gain = self.speedup(best) or 0.0
        if best is first:
            text = f"{self.name}: fastest is the first, {first.label}: {wall}{rate}"
        else:
            text = f"{self.name}: fastest is {best.label}: {wall}{rate}, {rounded_text(gain, 2)}x of {first.label}"
        left = [case.label for case in self.cases if case.program.fits is False]
        lines = [text, f"all: {', '.join(self.shared)}" if self.shared else ""]
        lines.append(f"does not fit in memory: {'; '.join(left)}" if left else "")
        return [line for line in lines if line]
