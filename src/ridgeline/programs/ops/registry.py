"""What an op is: a function from sizes to Work, registered with its signature.

The decorator checks every size, turns it into float64 (scalars stay scalars, arrays stay arrays) and stamps
name, family, dtype and shape on the Work. The command line and the tables read the same signature.
"""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError, unknown
from ...core.units import MAX_EXACT
from ...core.work import Array, Work

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


@dataclass(frozen=True)
class Param:
    name: str
    kind: str  # Size, Count, Flag, Format or Choice
    default: Any
    choices: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def words(self) -> str:
        return "one of " + ", ".join(self.choices) if self.choices else KINDS[self.kind]


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

    def check(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values ready for the function, or one message about the first that is not."""
        for name in values:
            if name not in self.params:
                raise unknown(f"parameter of {self.name}", name, self.params, f"It is {self.signature}.")
        missing = [name for name, param in self.params.items() if param.required and values.get(name) is None]
        if missing:
            raise InputError(f"{self.name} needs {', '.join(missing)}; it is {self.signature}")
        ready = {name: self._ready(self.params[name], value) for name, value in values.items()}
        sizes = {name: value.shape for name, value in ready.items() if isinstance(value, np.ndarray)}
        if len(set(sizes.values())) > 1:
            try:
                np.broadcast_shapes(*sizes.values())
            except ValueError:
                given = ", ".join(f"{name} has {'x'.join(map(str, shape))}" for name, shape in sizes.items())
                raise InputError(f"{self.name}: the arrays do not fit together: {given}") from None
        return ready

    def _ready(self, param: Param, value: Any) -> Any:
        if value is None:
            if param.default is None:
                return None
            raise InputError(f"{self.name}: {param.name} must be {param.words}, got nothing")
        if param.kind == "Format":
            return dtype_row(value).name
        if param.kind == "Choice":
            if str(value) not in param.choices:
                raise unknown(f"{param.name} of {self.name}", value, param.choices)
            return str(value)
        if param.kind == "Flag":
            return self._flag(param, value)
        return self._whole(param, value)

    def _flag(self, param: Param, value: Any) -> Array:
        if isinstance(value, str):
            if value.strip().lower() in YES + NO:
                return float(value.strip().lower() in YES)
            raise InputError(f"{self.name}: {param.name} must be yes or no, got '{value}'")
        try:
            found = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{self.name}: {param.name} must be yes or no, got {value!r}") from None
        if not np.all((found == 0) | (found == 1)):
            raise InputError(f"{self.name}: {param.name} must be yes or no, got {value!r}")
        return float(found) if found.ndim == 0 else found

    def _whole(self, param: Param, value: Any) -> Array:
        least = 1.0 if param.kind == "Size" else 0.0
        try:
            found = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{self.name}: {param.name} must be {param.words}, got {value!r}") from None
        if found.size == 0:
            raise InputError(f"{self.name}: {param.name} is empty; give at least one value")
        raw = np.asarray(value)
        if raw.dtype.kind in "iu":  # whole by nature; looked at before float64 rounds what lies beyond 2^53
            good = int(raw.min()) >= least and int(raw.max()) <= MAX_EXACT
            found = found if good else np.where(raw > int(MAX_EXACT), np.inf, found)
        else:
            good = all(
                block.min() >= least and block.max() <= MAX_EXACT and (np.floor(block) == block).all()
                for block in _blocks(found)
            )
        if not good:
            wrong = ~((found >= least) & (found <= MAX_EXACT) & (found == np.floor(found)))
            where = int(np.argmax(wrong.ravel()))
            place = f"[{where}]" if found.ndim else ""
            bad = float(found.ravel()[where])
            limit = (
                f" (at most 2^53 = {MAX_EXACT:.0f}, beyond which counts are no longer exact)" if bad > MAX_EXACT else ""
            )
            raise InputError(f"{self.name}: {param.name}{place} must be {param.words}, got {bad:g}{limit}")
        return float(found) if found.ndim == 0 else found

    def __call__(self, *args: Any, **kwargs: Any) -> Work:
        given = dict(zip(self.params, args, strict=False)) | kwargs
        twice = [name for name in kwargs if name in list(self.params)[: len(args)]]
        if twice:
            raise InputError(f"{self.name}: {twice[0]} is given twice, by place and by name")
        if len(args) > len(self.params):
            raise InputError(f"{self.name} takes {len(self.params)} values, got {len(args)}; it is {self.signature}")
        ready = self.check(given)
        work = self.make(**ready)
        shape = {name: value for name, value in ready.items() if value is not None and self._shows(name, value)}
        dtype = ready.get("dtype", self.params["dtype"].default if "dtype" in self.params else "")
        return replace(work, name=self.name, family=self.family, dtype=dtype, shape=shape)

    def _shows(self, name: str, value: Any) -> bool:
        param = self.params[name]
        if name == "dtype":
            return False
        return param.kind in ("Size", "Count") or isinstance(value, np.ndarray) or value != param.default


OPS: dict[str, Op] = {}

_BLOCK = 1 << 16


def _blocks(values: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """A large array piece by piece, so that checking it stays in cache."""
    flat = values.ravel()
    return (flat[at : at + _BLOCK] for at in range(0, flat.size, _BLOCK))


def _plain(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _params(function: Callable[..., Work]) -> dict[str, Param]:
    found = {}
    for name, param in inspect.signature(function).parameters.items():
        note = str(param.annotation).removesuffix(" | None")
        choices: tuple[str, ...] = ()
        if note.startswith("Literal["):
            choices = tuple(literal_eval(note.removeprefix("Literal").replace("[", "(", 1)[:-1] + ",)"))
            note = "Choice"
        found[name] = Param(name, note, param.default, choices)
    return found


def op(family: str, category: str, grows: str = "") -> Callable[[Callable[..., Work]], Op]:
    """Register a function from sizes to Work as an op of a kernel family and a chart category."""

    def register(function: Callable[..., Work]) -> Op:
        made = Op(
            function.__name__, function, family, category, _params(function), inspect.getdoc(function) or "", grows
        )
        OPS[made.name] = made
        return made

    return register


def find(name: str) -> Op:
    if name not in OPS:
        raise unknown("op", name, OPS, "See `ridgeline ops`.")
    return OPS[name]
