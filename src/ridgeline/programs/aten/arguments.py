"""Arguments: the arguments of a call by their places, checked; and what a count is made under.

Rules ask for tensors, numbers and flags at the places of the operator's schema. What was not recorded, or makes no sense,
ends the rule with `Missing`, whose text becomes the reason why the call has no count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from ...core.timeline import Call, Tensor
from .formats import REAL, format_of

MAX_DIMENSIONS, MAX_SIZE = 64, 1 << 53  # sizes beyond 2^53 are not exact in float64
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_ABSENT = (None, "", "None")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a count depends on beyond the call itself."""

    tf32: bool = False  # fp32 products of matrices on the tensor cores (torch.backends.cuda.matmul.allow_tf32)
    conv_tf32: bool = True  # fp32 convolutions there (torch.backends.cudnn.allow_tf32)
    device: str = "cuda"  # or "cpu"
    leaf: bool = False  # whether the call made no further operator calls: then a wrapper does its work itself
    dtype: str = ""  # of tensors whose format was not recorded, where the caller knows it (see `evidence`)
    lists: tuple[Tensor, ...] = ()  # of lists too long to be recorded, where the caller knows the tensors (parameters)
    pieces: int = 0  # blocks of the multi-tensor kernels of a call on such lists, where those are known instead
    joined: int = 0  # tensors of such a list that are joined, and the launches for it
    joins: int = 0
    ranks: int = 0  # of the process group of a collective, where the caller knows it


class Missing(Exception):
    """Why a call has no count: what was not recorded or does not fit."""


class Empty(Exception):
    """A call whose tensors have no elements, which does nothing."""


class Arguments:
    """The arguments of one call; every tensor has a valid shape and a known format."""

    def __init__(self, call: Call, settings: Settings) -> None:
        self.name, self.settings = call.name, settings
        self.base = base_name(call.name)
        self.in_place = self.base.endswith("_") and not self.base.endswith("__")
        self.outputs = _resolved(tuple(_flat(call.outputs)), settings.dtype)
        given = tuple(_flat(call.args))
        self._guess = _shared_format(given) or settings.dtype
        self.args = tuple(self._checked(arg) for arg in call.args)

    def __len__(self) -> int:
        return len(self.args)

    def _checked(self, arg: Any) -> Any:
        if isinstance(arg, Tensor):
            return _valid(arg, self._guess)
        if isinstance(arg, tuple | list):
            return tuple(_valid(item, self._guess) if isinstance(item, Tensor) else item for item in arg)
        return arg

    def at(self, place: int) -> Any:
        """The argument at a place; None where the record is shorter."""
        value = self.args[place] if place < len(self.args) else None
        return None if isinstance(value, str) and value in _ABSENT else value

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(_flat(self.args))

    def tensor(self, place: int, what: str = "") -> Tensor:
        value = self.at(place)
        if not isinstance(value, Tensor):
            raise Missing(self._absent(place, what or "a tensor") if self.tensors else "shapes were not recorded")
        return value

    def optional(self, place: int) -> Tensor | None:
        value = self.at(place)
        return value if isinstance(value, Tensor) else None

    def listed(self, place: int, what: str = "") -> tuple[Tensor, ...]:
        """The tensors of a list; one tensor counts as a list of it."""
        value = self.at(place)
        if isinstance(value, Tensor):
            return (value,)
        tensors = tuple(item for item in value if isinstance(item, Tensor)) if isinstance(value, tuple) else ()
        if not tensors:
            raise Missing(
                self._absent(place, what or "a list of tensors") if self.tensors else "shapes were not recorded"
            )
        return tensors

    def integers(self, place: int, what: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A list of integers, or one integer; `default` where there is none."""
        value = self.at(place)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            value = tuple(int(text) for text in _INTEGER.findall(value))
        if _whole(value):
            return (int(value),)
        if isinstance(value, tuple | list) and all(_whole(item) for item in value):
            return tuple(int(item) for item in value)
        raise Missing(self._absent(place, what))

    def integer(self, place: int, what: str, default: int | None = None) -> int:
        values = self.integers(place, what, None if default is None else (default,))
        if len(values) != 1:
            raise Missing(self._absent(place, what))
        return values[0]

    def flag(self, place: int, what: str, default: bool | None = None) -> bool:
        value = self.at(place)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        if isinstance(value, bool | int) and value in (0, 1):
            return bool(value)
        raise Missing(self._absent(place, what))

    def flags(self, place: int, count: int) -> tuple[bool, ...]:
        """A mask of so many flags; all set where it was not recorded."""
        value = self.at(place)
        if isinstance(value, str):
            value = tuple(word == "true" for word in re.findall(r"true|false", value.lower()))
        if isinstance(value, tuple | list) and len(value) == count:
            return tuple(bool(item) for item in value)
        return (True,) * count

    def _absent(self, place: int, what: str) -> str:
        return f"argument {place} ({what}) was not recorded"


def base_name(name: str) -> str:
    """`aten::add_.Tensor` as `add_`; names without a namespace as they are."""
    return name.rpartition("::")[2].partition(".")[0]


def elements(tensor: Tensor) -> int:
    """How many elements a shape has."""
    count = 1
    for size in tensor.shape:
        count *= size
    return count


def _flat(values: Any) -> list[Tensor]:
    items = (item for value in values for item in (value if isinstance(value, tuple | list) else (value,)))
    return [item for item in items if isinstance(item, Tensor)]


def _whole(value: Any) -> bool:
    return isinstance(value, int | float) and value == value and abs(value) < MAX_SIZE and int(value) == value


def _shared_format(tensors: tuple[Tensor, ...]) -> str:
    """The format for tensors without one: that of the first that has one and is no index or mask."""
    formats = [format_of(tensor.dtype) for tensor in tensors if tensor.dtype]
    real = [row for row in formats if row is not None and row.kind >= REAL]
    return real[0].name if real else ""


def _resolved(tensors: tuple[Tensor, ...], guess: str) -> tuple[Tensor, ...]:
    try:
        return tuple(_valid(tensor, guess) for tensor in tensors)
    except Missing:
        return ()  # results are a help where they are known, and not needed


def _valid(tensor: Tensor, guess: str) -> Tensor:
    """A tensor with a shape that can be and a format that is known."""
    if len(tensor.shape) > MAX_DIMENSIONS or not all(_whole(size) and size >= 0 for size in tensor.shape):
        raise Missing(f"{str(tensor.shape)[:60]} is no shape of a tensor")
    if elements(tensor) > MAX_SIZE:
        raise Missing(f"{str(tensor.shape)[:60]} has more than 2^53 elements")
    name = tensor.dtype or guess
    if not name:
        raise Missing("the format of its tensors was not recorded")
    row = format_of(name)
    if row is None:
        raise Missing(f"no width is known for the format {name[:40]!r}")
    strides = tensor.strides if len(tensor.strides) == len(tensor.shape) else ()
    return replace(tensor, dtype=row.name, strides=strides)
