"""Param: a parameter of an op, and the one rule by which a value of it is read, alone or a column at a time.

`read` takes one cell of a table or one word of a command line, `column` many cells at once, `check` a value or an array
from Python. All three accept the same numbers and the same words.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError, RidgelineError, UnknownName, unknown
from ...core.units import MAX_EXACT, number
from ...core.work import Array

Size: TypeAlias = Array  # a whole number of at least 1
Count: TypeAlias = Array  # a whole number of at least 0
Flag: TypeAlias = Array  # yes or no, used as a factor 1 or 0
Format: TypeAlias = str  # the name of a dtype

KINDS = {
    "Size": "a whole number of at least 1",
    "Count": "a whole number of at least 0",
    "Flag": "yes or no",
    "Format": "a dtype",
}
YES, NO = ("yes", "true", "1", "on", "y"), ("no", "false", "0", "off", "n")
MAX_EXACT = MAX_EXACT  # beyond it float64 no longer tells neighbouring whole numbers apart
BLOCK = 1 << 16  # values checked at a time, so that a large array is checked in cache


def blank(cell: Any) -> bool:
    """Whether a cell says nothing: empty text, null, or the NaN that data frames write for it."""
    if isinstance(cell, str):
        return not cell or cell.isspace()
    return cell is None or (isinstance(cell, float) and cell != cell)


@dataclass(frozen=True)
class Param:
    op: str
    name: str
    kind: str  # Size, Count, Flag, Format or Choice
    default: Any
    choices: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def is_word(self) -> bool:
        """Whether its values are words, of which an array call takes one."""
        return self.kind in ("Format", "Choice")

    @property
    def words(self) -> str:
        return "one of " + ", ".join(self.choices) if self.choices else KINDS[self.kind]

    @property
    def minimum(self) -> float:
        return 1.0 if self.kind == "Size" else 0.0

    def read(self, cell: Any) -> Any:
        """The value of one cell, text or number; the error says what it must be, and the caller names the column."""
        if self.kind == "Format":
            return dtype_row(cell).name
        if self.kind == "Choice":
            word = str(cell).strip()
            if word not in self.choices:
                raise unknown(f"{self.name} of {self.op}", word, self.choices)
            return word
        if self.kind == "Flag":
            word = str(cell).strip().lower().removesuffix(".0")
            if word not in YES + NO:
                raise InputError(f"must be {self.words}, got '{cell}'")
            return float(word in YES)
        try:
            value = number(cell) if isinstance(cell, str) else float(cell)
        except (RidgelineError, TypeError, ValueError, OverflowError):
            value = float("nan")
        if not self.minimum <= value <= MAX_EXACT or value != int(value):
            raise InputError(f"must be {self.words}, got '{cell}'")
        return value

    def column(self, cells: Sequence[Any]) -> tuple[NDArray[np.float64], dict[int, str]]:
        """The numbers of a column, and by place what is wrong with the cells that hold none."""
        if self.kind != "Flag":
            try:  # all at once, where all are written as programs write numbers
                values = np.array(cells, dtype=np.float64)
                if values.ndim == 1 and self._holds(values).all():
                    return values, {}
            except (TypeError, ValueError, OverflowError):
                pass
        values, faults = np.ones(len(cells)), {}
        for place, cell in enumerate(cells):
            try:
                values[place] = self.read(cell)
            except InputError as error:
                faults[place] = str(error)
        return values, faults

    def check(self, value: Any) -> Any:
        """A value or an array as a caller in Python gives it; None where the op takes that."""
        if value is None and self.default is None:
            return None
        if value is None:
            raise self._fault("nothing")
        if self.is_word or isinstance(value, str):
            try:
                return self.read(value)
            except UnknownName:
                raise
            except InputError as error:
                raise InputError(f"{self.op}: {self.name} {error}") from error
        try:
            values = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._fault(repr(value)) from None
        if self.kind == "Flag":
            if not np.all((values == 0) | (values == 1)):
                raise self._fault(repr(value))
        else:
            self._check_numbers(values, np.asarray(value))
        return float(values) if values.ndim == 0 else values

    def _check_numbers(self, values: NDArray[np.float64], given: NDArray[Any]) -> None:
        if values.size == 0:
            raise InputError(f"{self.op}: {self.name} is empty; give at least one value")
        if given.dtype.kind in "iu":  # whole by nature; looked at before float64 rounds what lies beyond 2^53
            if int(given.min()) >= self.minimum and int(given.max()) <= MAX_EXACT:
                return
            values = np.where(given > int(MAX_EXACT), np.inf, values)
        elif all(self._holds(block).all() for block in _blocks(values)):
            return
        first = int(np.argmin(self._holds(values).ravel()))
        bad = float(values.ravel()[first])
        limit = f" (at most 2^53 = {MAX_EXACT:.0f}, beyond which counts are no longer exact)" if bad > MAX_EXACT else ""
        raise self._fault(f"{bad:g}{limit}", f"[{first}]" if values.ndim else "")

    def _holds(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        holds: NDArray[np.bool_] = (values >= self.minimum) & (values <= MAX_EXACT) & (values == np.floor(values))
        return holds

    def _fault(self, got: str, place: str = "") -> InputError:
        return InputError(f"{self.op}: {self.name}{place} must be {self.words}, got {got}")


def _blocks(values: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    flat = values.ravel()
    return (flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK))
