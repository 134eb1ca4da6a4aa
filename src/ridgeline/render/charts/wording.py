"""How figures, engines and machines are worded on charts."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.dtypes import TABLE
from ...core.machine import Machine
from ...core.units import show
from ..chart import INTENSITY_UNIT

INTENSITY, PERFORMANCE = "arithmetic intensity", "performance"
PER_BYTE = INTENSITY_UNIT


def title_of(machine: Machine) -> str:
    return machine.title or machine.name


def name_of(machine: Machine) -> str:
    """In a sentence: `here` is the name of the machine one is at, and no word for it."""
    return "this machine" if machine.name == "here" else machine.name


def engine_title(engine: str) -> str:
    """`tensor.bf16` as people say it."""
    owner, _, dtype = engine.partition(".")
    return f"{dtype} {owner}" if dtype else engine


def level_title(level: str) -> str:
    return level.upper() if len(level) <= 5 else level


BOUND_TITLES = {
    "memory": "memory-bound", "compute": "compute-bound", "overhead": "overhead-bound", "underused": "latency-bound",
    "latency": "latency-bound",
}  # fmt: skip


def bound_title(bound: str) -> str:
    """A bound as charts group by it: one name, one colour."""
    return BOUND_TITLES.get(bound, bound)


def link_title(link: str) -> str:
    return {"nvlink": "NVLink", "pcie": "PCIe", "nic": "NIC", "ici": "ICI"}.get(link, link)


def is_integer(engine: str) -> bool:
    dtype = engine.partition(".")[2]
    return dtype in TABLE and TABLE[dtype].integer


def rate_unit(engines: Iterable[str]) -> str:
    """Integer arithmetic is counted in operations, anything with a floating-point format in it in flops."""
    names = list(engines)
    return "OP/s" if names and all(is_integer(name) for name in names) else "FLOP/s"


def rate(value: float, engine: str = "") -> str:
    return show(value, "OP/s" if is_integer(engine) else "FLOP/s", 4)


def times(factor: float) -> str:
    return f"{factor:.1f}x" if factor < 9.95 else f"{factor:.0f}x"
