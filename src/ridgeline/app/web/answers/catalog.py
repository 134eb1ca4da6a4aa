"""The choices of the page: machines, ops with a form for their sizes, number formats, models."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from ....core.dtypes import TABLE
from ....core.machine import Machine
from ....machines.files import HERE, listing
from ....programs.models.load import entries
from ....programs.ops import OPS, Op
from .lookup import machine_names, machine_of

# Where a slider of a size begins, and how far it goes; both in powers of two. A size that is not named has the last row.
SLIDERS = {
    "batch": (1, 1024, 1), "kernel": (1, 11, 3), "stride": (1, 4, 1), "padding": (0, 5, 1), "ranks": (2, 1024, 8), "head_dim": (16, 512, 128),
    "heads": (1, 256, 32), "kv_heads": (1, 256, 8), "experts": (1, 512, 8), "topk": (1, 16, 2), "c_in": (1, 4096, 64), "c_out": (1, 4096, 64),
    "h": (1, 1024, 56), "w": (1, 1024, 56), "vocab": (1024, 1 << 18, 1 << 15), "bytes": (1, 1 << 34, 1 << 26), "n": (1, 1 << 16, 4096),
    "seq_q": (1, 1 << 17, 2048), "seq_kv": (1, 1 << 17, 2048), "groups": (1, 4096, 1), "": (1, 1 << 16, 4096),
}  # fmt: skip
STREAMED = 1 << 30  # elements at the end of the slider of an op over n alone


@cache
def _ops() -> list[dict[str, Any]]:
    return [op_form(op) for op in OPS.values()]


def op_form(op: Op) -> dict[str, Any]:
    """The op with every parameter: its kind, default, choices, and the range of its slider."""
    sizes = [name for name, param in op.params.items() if param.kind in ("Size", "Count")]
    params = []
    for name, param in op.params.items():
        default = None if param.required else param.default
        row: dict[str, Any] = {
            "name": name, "kind": param.kind, "default": default, "choices": list(param.choices), "required": param.required,
        }  # fmt: skip
        if param.kind in ("Size", "Count"):
            low, high, start = (1, STREAMED, 1 << 24) if sizes == ["n"] else SLIDERS.get(name, SLIDERS[""])
            row |= {"min": low, "max": high, "start": start if default is None else default}
        params.append(row)
    return {"name": op.name, "category": op.category, "summary": op.summary, "params": params}


def everything() -> dict[str, Any]:
    """What the page offers; read once for the machines there are."""
    return _everything(tuple(machine_names()))


@lru_cache(maxsize=2)
def _everything(names: tuple[str, ...]) -> dict[str, Any]:
    listed = listing()
    machines = {name: machine_of(HERE) if name == HERE else listed.machines.get(name) for name in names}
    return {
        "machines": [_machine(name, machine) for name, machine in machines.items() if machine is not None],
        "ops": _ops(),
        "dtypes": list(TABLE),
        "models": sorted(entries()),
        "problems": [f"{each.name} left out: {each.complaint}" for each in listed.broken],
    }


def _machine(name: str, machine: Machine) -> dict[str, Any]:
    return {
        "name": name, "title": machine.title, "vendor": machine.vendor, "kind": machine.kind, "capacity": machine.main.capacity.value(),
        "bandwidth": machine.main.bandwidth.value(), "levels": [level.name for level in machine.levels],
        "engines": list(machine.peaks), "measured": name == HERE,
    }  # fmt: skip
