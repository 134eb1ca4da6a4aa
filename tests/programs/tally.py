"""A tally of what a plain loop does, and the rows of the table that ops are compared with."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Tally:
    """What a loop did: flops by engine, and bytes by level, tensor and direction."""

    def __init__(self, widths: dict[str, float]) -> None:
        self.widths = widths
        self.flops: Counter[str] = Counter()
        self.special = 0
        self.touched: dict[tuple[str, str, str], set[tuple[int, ...]]] = defaultdict(set)
        self.again: Counter[tuple[str, str, str]] = Counter()

    def fma(self) -> None:
        """A multiply-add on the matrix units is two flops (C-01)."""
        self.flops["matrix"] += 2

    def do(self, *what: str) -> None:
        """Scalar operations, one flop each; some need the special-function unit (C-06)."""
        self.flops["vector"] += len(what)
        self.aside(*what)

    def aside(self, *what: str) -> None:
        """Operations per row or column, which the per-element profiles leave out of the flops."""
        self.special += sum(name in ("exp", "div", "sqrt", "tanh", "log", "erf") for name in what)

    def load(self, tensor: str, *address: int, level: str = "main") -> None:
        self.touched[level, tensor, "read"].add(address)

    def store(self, tensor: str, *address: int, level: str = "main") -> None:
        self.touched[level, tensor, "write"].add(address)

    def fetch(self, tensor: str, times: int = 1, level: str = "main", way: str = "read") -> None:
        self.again[level, tensor, way] += times

    def moves(self) -> dict[tuple[str, str, str], float]:
        found = Counter({key: len(addresses) for key, addresses in self.touched.items()})
        found.update(self.again)
        return {key: count * self.widths[key[1]] for key, count in found.items() if count}


class Num(float):
    """A number that reports every operation on it to a tally, so that a formula counts itself."""

    tally: Tally

    def __new__(cls, value: float, tally: Tally) -> Num:
        self = super().__new__(cls, value)
        self.tally = tally
        return self

    def _did(self, what: str, value: float) -> Num:
        self.tally.do(what)
        return Num(value, self.tally)

    def __add__(self, other: float) -> Num:
        return self._did("add", float(self) + float(other))

    def __sub__(self, other: float) -> Num:
        return self._did("sub", float(self) - float(other))

    def __rsub__(self, other: float) -> Num:
        return self._did("sub", float(other) - float(self))

    def __mul__(self, other: float) -> Num:
        return self._did("mul", float(self) * float(other))

    def __truediv__(self, other: float) -> Num:
        return self._did("div", float(self) / float(other))

    def __rtruediv__(self, other: float) -> Num:
        return self._did("div", float(other) / float(self))

    def __neg__(self) -> Num:
        return self._did("neg", -float(self))

    def max(self, other: float) -> Num:
        return self._did("max", max(float(self), float(other)))

    def exp(self) -> Num:
        return self._did("exp", math.exp(self))

    def erf(self) -> Num:
        return self._did("erf", math.erf(self))

    def tanh(self) -> Num:
        return self._did("tanh", math.tanh(self))

    __radd__, __rmul__ = __add__, __mul__


@dataclass(frozen=True)
class Row:
    op: str
    values: dict[str, Any]
    loop: Callable[..., None]
    widths: dict[str, float]
    launches: int = 1

    @property
    def name(self) -> str:
        return f"{self.op}({', '.join(f'{key}={value}' for key, value in self.values.items())})"


def each(width: float, names: str) -> dict[str, float]:
    return dict.fromkeys(names.split(), width)


def visible(i: int, j: int, seq_q: int, seq_kv: int, causal: bool, window: int | None) -> bool:
    """Whether query i sees key j; queries are the last seq_q positions of the sequence."""
    position = seq_kv - seq_q + i
    return not causal or (j <= position and (window is None or j > position - window))
