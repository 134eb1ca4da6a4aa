"""Advice rules as data: moves, rules with their conditions, levels of the recommender, the decision flow.

All of it is in `rules.toml`; a new rule is one row there, and a formula in `gains.py` where none fits.
"""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from ..core.cached import cached_property
from ..core.errors import unknown
from ..core.roofline import attainable, ridge
from .target import ACHIEVABLE_SHARE

SHOWN, POSSIBLE = "shown", "possible"
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip

Signs = Mapping[str, float | str]  # figures of a gap by name, for conditions; unknown ones are absent
GPU = "gpu"


@dataclass(frozen=True)
class Move:
    key: str
    name: str
    changes: str
    effect: tuple[str, ...]  # bytes, rate, flops, launches
    kind: str
    bounds: tuple[str, ...]
    when: str
    limit: str
    device: str = ""  # the only kind of device it exists on

    @property
    def direction(self) -> str:
        """On the roofline plane: fewer bytes move right, a better use of the limiting unit moves up."""
        right = "bytes" in self.effect
        up = not right or "rate" in self.effect or "launches" in self.effect
        return "both" if right and up else "right" if right else "up"

    @property
    def joins_launches(self) -> bool:
        """Whether one launch replaces many; a larger batch only adds work per launch."""
        return "launches" in self.effect and "rate" not in self.effect


def _is_among(word: Any, words: Any) -> bool:
    return word in words


@dataclass(frozen=True)
class Condition:
    """`figure operator value`; words may be alternatives, `stall = wait | barrier`."""

    figure: str
    operator: str
    value: float | tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Condition:
        figure, sign, value = text.split(" ", 2)
        try:
            return cls(figure, sign, float(value))
        except ValueError:
            return cls(figure, sign, tuple(word.strip() for word in value.split("|")))

    @property
    def compare(self) -> Callable[[Any, Any], bool]:
        """Whether a known figure meets the value."""
        return _is_among if isinstance(self.value, tuple) else OPERATORS[self.operator]


@dataclass(frozen=True)
class Rule:
    name: str
    group: str
    cause: str
    move: str
    gain: str
    applies: tuple[Condition, ...] = ()
    sign: tuple[Condition, ...] = ()
    unless: tuple[str, ...] = ()
    shown: str = ""  # evidence that needs no counters
    possible: bool = False  # a suggestion, never shown by counters
    only_shown: bool = False  # not offered without counters
    side: str = ""  # memory or compute: without counters offered only for a point on this side of the ridge
    rank: int = 1  # 1 a count of the fault itself, 2 inferred from stalls and shares, 3 general
    quotes: tuple[str, ...] = ()  # further figures that are quoted as evidence

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        return self.applies + self.sign

    @cached_property
    def _tests(self) -> tuple[tuple[str, Callable[[Any, Any], bool], Any], ...]:
        """Its conditions without a call between: a large report asks each of them thousands of times."""
        return tuple((each.figure, each.compare, each.value) for each in self.conditions)

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """What its conditions ask for, each once."""
        return tuple(dict.fromkeys(condition.figure for condition in self.conditions))

    def status(self, signs: Signs) -> str:
        """Shown, possible, or empty where it does not hold."""
        undecided = False
        if self.possible and any(condition.figure not in signs for condition in self.applies):
            return ""  # a suggestion needs to know what it is about
        for figure, holds, value in self._tests:
            known = signs.get(figure)
            if known is None:
                undecided = True
                if self.only_shown:
                    return ""
            elif not holds(known, value):
                return ""
        if undecided and self.side and signs.get("bound_predicted") not in (self.side, "balanced"):
            return ""
        certain = not undecided and (bool(self.sign) or bool(self.shown)) and not self.possible
        return SHOWN if certain else POSSIBLE


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("rules.toml").read_text(encoding="utf-8"))


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


@lru_cache(maxsize=1)
def catalog() -> dict[str, Move]:
    """All moves by key."""
    return {row["key"]: Move(**_tuples(row)) for row in _table()["move"]}


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    table = []
    for row in _table()["rule"]:
        conditions = {name: tuple(map(Condition.parse, row.get(name, ()))) for name in ("applies", "sign")}
        table.append(Rule(**{**_tuples(row), **conditions}))
    return tuple(table)


def moves(bound: str, device: str = GPU) -> tuple[Move, ...]:
    """The moves for a bound on a kind of device, when nothing else is known."""
    offered = tuple(move for move in catalog().values() if bound in move.bounds and move.device in ("", device))
    if not offered:
        raise unknown("bound", bound, {name for move in catalog().values() for name in move.bounds})
    return offered


@lru_cache(maxsize=1)
def figures() -> dict[str, tuple[str, str]]:
    """Name and unit of the figures that are quoted as evidence; flags such as `matrix` are not."""
    return {name: (title, unit) for name, (title, unit) in _table()["figures"].items()}


def causes(group: str) -> tuple[str, ...]:
    """The known causes of a kind of gap: `memory gap`, `compute gap`, `extra bytes` ..."""
    known = tuple(rule.cause for rule in rules() if rule.group == group)
    if not known:
        raise unknown("kind of gap", group, {rule.group for rule in rules()})
    return known


def decode() -> tuple[Move, ...]:
    """The moves for decoding, one token at a time."""
    return tuple(catalog()[key] for key in _table()["decode"]["moves"])


def flow() -> dict[str, Any]:
    """The decision flow: what to measure, the question, and the moves for either answer."""
    table = _table()["flow"]
    branches = {side: tuple(catalog()[key] for key in table[side]) for side in ("memory", "compute")}
    return {"measure": table["measure"], "question": table["question"], **branches}


@dataclass(frozen=True)
class Recommendation:
    side: str
    name: str  # low, moderate or high efficiency
    efficiency: float
    moves: tuple[Move, ...]
    causes: tuple[str, ...]  # possible ones, of a point below the roofline


def recommend(rate: float, intensity: float, peak: float, bandwidth: float) -> Recommendation:
    """Bound, efficiency and moves from rate, AI and two ceilings alone."""
    side = "memory" if intensity < ridge(peak, bandwidth) else "compute"
    efficiency = rate / float(attainable(intensity, peak, bandwidth))
    level = next(row for row in _table()["level"] if row["side"] == side and efficiency < row["below"])
    below = causes(f"{side} gap") if efficiency < ACHIEVABLE_SHARE["stated"] else ()
    return Recommendation(side, level["name"], efficiency, tuple(catalog()[key] for key in level["moves"]), below)
