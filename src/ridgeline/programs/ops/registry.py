"""What an op is: a function from sizes to Work, registered with its signature, and how the values of its parameters are read.

`Param.read` takes one cell of a table or one word of a command line, `column` many cells at once, `check` a value or an
array from Python; all three accept the same numbers and the same words. The decorator checks every size, turns it into
float64 (scalars stay scalars, arrays stay arrays) and stamps name, family, dtype and shape on the Work. The command line
and the tables read the same signature.
"""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core.columns import ABSENT
from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError, RidgelineError, UnknownName, letters, quoted, unknown
from ...core.intake.door import shown as shown_value
from ...core.units import MAX_EXACT, number
from ...core.work import Array, Work
from .aliases import ALIASES, size_name

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
BLOCK = 1 << 16  # values checked at a time, so that a large array is checked in cache


def blank(cell: Any) -> bool:
    """Whether a cell says nothing: empty text, null, or the NaN that data frames write for it."""
    if isinstance(cell, str):
        return not cell or cell.isspace()
    return cell is None or cell is ABSENT or (isinstance(cell, float) and cell != cell)


def _limit(value: float) -> str:
    """What is wrong with a whole number that is too large; nothing for others."""
    return f" (at most 2^53 = {MAX_EXACT:.0f}, beyond which counts are no longer exact)" if value > MAX_EXACT else ""


def _plain_numbers(cells: Sequence[Any]) -> bool:
    """Whether the cells are numbers, or texts that may be numbers in ASCII."""
    kinds = set(map(type, cells))
    return kinds <= {int, float} or (kinds == {str} and "".join(cells).isascii())


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

    @property
    def unit(self) -> str:
        """The unit that its values may carry: `bytes=64MiB`."""
        return "B" if self.name == "bytes" else ""

    def read(self, cell: Any) -> Any:
        """The value of one cell, text or number; the error says what it must be, and the caller names the column."""
        if isinstance(cell, Mapping | list | tuple):
            raise InputError(f"must be {self.words}, got {shown_value(cell)}")
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
                raise InputError(f"must be {self.words}, got {quoted(cell)}")
            return float(word in YES)
        try:
            value = (
                float("nan")
                if isinstance(cell, bool)
                else number(cell, self.unit)
                if isinstance(cell, str)
                else float(cell)
            )
        except (RidgelineError, TypeError, ValueError, OverflowError):
            value = float("nan")
        if not self.minimum <= value <= MAX_EXACT or value != int(value):
            raise InputError(f"must be {self.words}, got {quoted(cell)}{_limit(value)}")
        return value

    def column(self, cells: Sequence[Any]) -> tuple[NDArray[np.float64], dict[int, str]]:
        """The numbers of a column, and by place what is wrong with the cells that hold none."""
        if self.kind != "Flag" and _plain_numbers(cells):
            try:  # all at once, where all are written as programs write numbers
                values = np.fromiter(map(float, cells), np.float64, len(cells))
                if self._holds(values).all():
                    return values, {}
            except (ValueError, OverflowError):
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
        except (TypeError, ValueError, OverflowError):
            raise self._fault(quoted(value)) from None
        if self.kind == "Flag":
            if not np.all((values == 0) | (values == 1)):
                raise self._fault(quoted(value))
        else:
            self._check_numbers(values, np.asarray(value))
        return float(values) if values.ndim == 0 else values

    def _check_numbers(self, values: NDArray[np.float64], given: NDArray[Any]) -> None:
        flat = values.ravel()
        if flat.size == 0:
            raise InputError(f"{self.op}: {self.name} is empty; give at least one value")
        if given.dtype.kind in "iu":  # integers are checked before float64 rounds those beyond 2^53
            if int(given.min()) >= self.minimum and int(given.max()) <= MAX_EXACT:
                return
            flat = np.where(given > int(MAX_EXACT), np.inf, values).ravel()
        elif all(self._holds(flat[start : start + BLOCK]).all() for start in range(0, flat.size, BLOCK)):
            return
        first = int(np.argmin(self._holds(flat)))
        bad = float(flat[first])
        raise self._fault(f"{bad:g}{_limit(bad)}", f"[{first}]" if values.ndim else "")

    def _holds(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        holds: NDArray[np.bool_] = (values >= self.minimum) & (values <= MAX_EXACT) & (values == np.floor(values))
        return holds

    def _fault(self, got: str, place: str = "") -> InputError:
        return InputError(f"{self.op}: {self.name}{place} must be {self.words}, got {got}")


@dataclass(frozen=True)
class Op:
    name: str
    make: Callable[..., Work]
    family: str
    category: str
    params: dict[str, Param]
    doc: str
    grows: str = ""  # the size that raises the intensity: rows of a product, images of a batch

    def __repr__(self) -> str:
        return f"{self.signature}\n  {self.summary}"

    @property
    def summary(self) -> str:
        return self.doc.strip().splitlines()[0]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names."""
        return tuple(alias for alias, name in ALIASES.items() if name == self.name)

    @property
    def signature(self) -> str:
        words = {True: "yes", False: "no"}
        shown = []
        for name, param in self.params.items():
            text = words[param.default] if isinstance(param.default, bool) else param.default
            if text is not None:
                shown.append(name if param.required else f"{name}={text}")
        return f"{self.name}({', '.join(shown)})"

    def bind(self, row: Mapping[str, Any], defaults: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The arguments that a row of a table gives, text or values; words it leaves out are taken from `defaults`.

        Columns of other ops are left aside. The error names the column at fault.
        """
        arguments, _, faults = self.bind_columns(row, {}, defaults)
        if faults:
            raise InputError("; ".join(faults))
        return arguments

    def bind_columns(
        self, row: Mapping[str, Any], columns: Mapping[str, Sequence[Any]], defaults: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], dict[int, list[str]], list[str]]:
        """The arguments of many rows at once: arrays of the `columns`, and what all of them share in `row`.

        Also, by place, the faults of a row that cannot be read, and the faults of all rows. Each names its column.
        """
        arguments: dict[str, Any] = {}
        faults: dict[int, list[str]] = {}
        shared: list[str] = []
        for name, param in self.params.items():
            if name in columns:
                arguments[name], wrong = param.column(columns[name])
                for place, why in wrong.items():
                    faults.setdefault(place, []).append(f"column {name}: {why}")
                continue
            cell = row.get(name)
            if blank(cell) and param.is_word and defaults:
                cell = defaults.get(name)
            if not blank(cell):
                try:
                    arguments[name] = param.read(cell)
                except RidgelineError as error:
                    shared.append(f"column {name}: {error}")
            elif param.required:
                shared.append(f"column {name}: {self.name} needs it and it is empty")
        return arguments, faults, shared

    def check(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values from Python ready for the function, or one message about the first that is not."""
        values = {self.parameter(name): value for name, value in values.items()}
        missing = [name for name, param in self.params.items() if param.required and values.get(name) is None]
        if missing:
            raise InputError(f"{self.name} needs {', '.join(missing)}; it is {self.signature}")
        checked = {name: self.params[name].check(value) for name, value in values.items()}
        shapes = {name: value.shape for name, value in checked.items() if isinstance(value, np.ndarray)}
        if len(set(shapes.values())) > 1:
            try:
                np.broadcast_shapes(*shapes.values())
            except ValueError:
                given = ", ".join(f"{name} has {'x'.join(map(str, shape))}" for name, shape in shapes.items())
                raise InputError(f"{self.name}: the arrays do not fit together: {given}") from None
        return checked

    def parameter(self, name: str) -> str:
        """The parameter that a name means: `M` is m, `in` is in_features."""
        known = size_name(name, self.params)
        if known is None:
            raise unknown(f"parameter of {self.name}", name, self.params, f"It is {self.signature}.")
        return known

    def __call__(self, *args: Any, **kwargs: Any) -> Work:
        if len(args) > len(self.params):
            raise InputError(f"{self.name} takes {len(self.params)} values, got {len(args)}; it is {self.signature}")
        given = dict(zip(self.params, args, strict=False))
        for name, value in kwargs.items():
            known = self.parameter(name)
            if known in given:
                raise InputError(f"{self.name}: {known} is given twice")
            given[known] = value
        values = self.check(given)
        work = self.make(**values)
        dtype = values.pop("dtype", self.params["dtype"].default if "dtype" in self.params else "")
        shape = {name: value for name, value in values.items() if value is not None and self._shows(name, value)}
        return replace(work, name=self.name, family=self.family, dtype=dtype, shape=shape)

    def _shows(self, name: str, value: Any) -> bool:
        param = self.params[name]
        return param.kind in ("Size", "Count") or isinstance(value, np.ndarray) or value != param.default


OPS: dict[str, Op] = {}


def _params(function: Callable[..., Work]) -> dict[str, Param]:
    """The parameters of a function by name, their kinds taken from its annotations."""
    params = {}
    for name, param in inspect.signature(function).parameters.items():
        kind, choices = str(param.annotation).removesuffix(" | None"), ()
        if kind.startswith("Literal["):
            choices = tuple(literal_eval(kind.removeprefix("Literal").replace("[", "(", 1)[:-1] + ",)"))
            kind = "Choice"
        params[name] = Param(function.__name__, name, kind, param.default, choices)
    return params


def op(family: str, category: str, grows: str = "") -> Callable[[Callable[..., Work]], Op]:
    """Register a function from sizes to Work as an op of a kernel family and a chart category."""

    def register(function: Callable[..., Work]) -> Op:
        doc = inspect.getdoc(function) or ""
        made = Op(function.__name__, function, family, category, _params(function), doc, grows)
        # help() and editors show the signature and docstring of the function
        vars(made).update(__name__=function.__name__, __doc__=doc, __wrapped__=function)
        OPS[function.__name__] = made
        return made

    return register


def op_name(name: str) -> str | None:
    """The op that a name means, in any spelling and by any of its names; None where there is none."""
    if name in OPS:
        return name
    return _spellings(len(OPS)).get(letters(name))


@cache
def _spellings(count: int) -> dict[str, str]:
    """The ops there are, of which there are `count`, by their names and aliases without what hands vary."""
    return {letters(name): name for name in OPS} | {letters(alias): op for alias, op in ALIASES.items()}


def find(name: str) -> Op:
    known = op_name(name)
    if known is None:
        raise unknown("op", name, [*OPS, *ALIASES])
    return OPS[known]
