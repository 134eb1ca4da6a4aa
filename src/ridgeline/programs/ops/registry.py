"""What an op is: a function from sizes to Work, registered with its signature.

The decorator checks every size, turns it into float64 (scalars stay scalars, arrays stay arrays) and stamps
name, family, dtype and shape on the Work. The command line and the tables read the same signature.
"""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.errors import InputError, RidgelineError, unknown
from ...core.work import Work
from .params import Count, Flag, Format, Param, Size, blank

__all__ = ["OPS", "Count", "Flag", "Format", "Op", "Param", "Size", "find", "op"]


@dataclass(frozen=True)
class Op:
    name: str
    make: Callable[..., Work]
    family: str
    category: str
    params: dict[str, Param]
    doc: str
    grows: str = ""  # the size that raises the intensity: rows of a product, images of a batch

    @property
    def summary(self) -> str:
        return self.doc.strip().splitlines()[0]

    @property
    def signature(self) -> str:
        shown = [
            name if param.required else f"{name}={_plain(param.default)}"
            for name, param in self.params.items()
            if param.default is not None
        ]
        return f"{self.name}({', '.join(shown)})"

    def bind(self, row: Mapping[str, Any], defaults: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The arguments that a row of a table gives, text or values; words it leaves out are taken from `defaults`.

        Columns of other ops are left aside. The error names the column at fault.
        """
        return self.bind_columns(row, {}, defaults)[0]

    def bind_columns(
        self,
        row: Mapping[str, Any],
        columns: Mapping[str, Sequence[Any]],
        defaults: Mapping[str, str] | None = None,
    ) -> tuple[dict[str, Any], dict[int, str]]:
        """The arguments of many rows at once: arrays of the `columns`, and what all of them share in `row`.

        Beside them, by place, what is wrong with a row that cannot be read; what is wrong with all is raised.
        """
        arguments: dict[str, Any] = {}
        faults: dict[int, str] = {}
        for name, param in self.params.items():
            if name in columns:
                arguments[name], wrong = param.column(columns[name])
                faults = {place: f"column {name}: {why}" for place, why in wrong.items()} | faults
                continue
            cell = row.get(name)
            if blank(cell) and param.is_word and defaults:
                cell = defaults.get(name)
            if not blank(cell):
                try:
                    arguments[name] = param.read(cell)
                except RidgelineError as error:
                    raise InputError(f"column {name}: {error}") from error
            elif param.required:
                raise InputError(f"column {name}: {self.name} needs it and it is empty")
        return arguments, faults

    def check(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values from Python ready for the function, or one message about the first that is not."""
        for name in values:
            if name not in self.params:
                raise self.unknown_parameter(name)
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

    def unknown_parameter(self, name: str) -> InputError:
        return unknown(f"parameter of {self.name}", name, self.params, f"It is {self.signature}.")

    def __call__(self, *args: Any, **kwargs: Any) -> Work:
        given = dict(zip(self.params, args, strict=False)) | kwargs
        twice = [name for name in kwargs if name in list(self.params)[: len(args)]]
        if twice:
            raise InputError(f"{self.name}: {twice[0]} is given twice, by place and by name")
        if len(args) > len(self.params):
            raise InputError(f"{self.name} takes {len(self.params)} values, got {len(args)}; it is {self.signature}")
        values = self.check(given)
        work = self.make(**values)
        shape = {name: value for name, value in values.items() if value is not None and self._shows(name, value)}
        dtype = values.get("dtype", self.params["dtype"].default if "dtype" in self.params else "")
        return replace(work, name=self.name, family=self.family, dtype=dtype, shape=shape)

    def _shows(self, name: str, value: Any) -> bool:
        param = self.params[name]
        if name == "dtype":
            return False
        return param.kind in ("Size", "Count") or isinstance(value, np.ndarray) or value != param.default


OPS: dict[str, Op] = {}


def _plain(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


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
        OPS[function.__name__] = Op(function.__name__, function, family, category, _params(function), doc, grows)
        return OPS[function.__name__]

    return register


def find(name: str) -> Op:
    if name not in OPS:
        raise unknown("op", name, OPS, "See `ridgeline ops`.")
    return OPS[name]
