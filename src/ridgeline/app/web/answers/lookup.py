"""Machines, models and cases as the page names them. Only names are looked up: no text of a request becomes a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ....core.errors import InputError, unknown
from ....core.machine import Machine
from ....machines.files import HERE, names, saved_measurement
from ....machines.load import load
from ....programs.ops import Op, find

MAX_VALUE = 200  # characters of one value of a case


def machine_names() -> list[str]:
    """Machines the page offers: the catalog, the user's own, and this machine where it was measured."""
    return [*([HERE] if saved_measurement() is not None else []), *names()]


@lru_cache(maxsize=256)
def machine_of(name: str) -> Machine:
    if name not in machine_names():
        raise unknown("machine", name, machine_names())
    return load(name)


def case_of(op_name: str, values: Mapping[str, Any]) -> tuple[Op, dict[str, Any]]:
    """The op of a name, and its arguments of one case from the words or numbers of a form; empty ones are left out."""
    op = find(op_name)
    row = {
        op.parameter(name): value if not isinstance(value, str) else value[:MAX_VALUE] for name, value in values.items()
    }
    try:
        return op, op.bind(row)
    except InputError as error:  # a form has fields, not columns
        raise InputError(f"{op.name}: {str(error).replace('column ', '')}") from error


def case_of_text(text: str) -> tuple[Op, dict[str, Any]]:
    """A case in one line: `gemm m=1024 n=1024 k=1024 dtype=fp32`."""
    op_name, *words = text.split() or [""]
    pairs = [word.partition("=") for word in words]
    if not all(sign for _, sign, _ in pairs):
        raise InputError(f"a case is OP NAME=VALUE ..., got {text[:MAX_VALUE]!r}")
    return case_of(op_name, {name: value for name, _, value in pairs})


def texts_of(lines: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Pasted cases as ops and values: `gemm m=1 n=4096 k=4096` in a line each, or a table whose head has a column op."""
    kept = [line for line in lines if line.strip()]
    head = kept[0].lower() if kept else ""
    sign = next((sign for sign in ("\t", ";", ",") if sign in head), "")
    if sign and "=" not in head:
        names = [name.strip().lower() for name in kept[0].split(sign)]
        if "op" not in names:
            raise InputError(f"the pasted table has no column op; its head is {kept[0][:MAX_VALUE]!r}")
        rows = [dict(zip(names, map(str.strip, line.split(sign)), strict=False)) for line in kept[1:]]
        return [(row.get("op", ""), _sizes(row)) for row in rows]
    words = [line.split() for line in kept]
    for line in words:
        if not all("=" in word for word in line[1:]):
            raise InputError(f"a case is OP NAME=VALUE ..., got {' '.join(line)[:MAX_VALUE]!r}")
    return [(line[0], {name: value for name, _, value in (word.partition("=") for word in line[1:])}) for line in words]


def _sizes(row: Mapping[str, str]) -> dict[str, str]:
    """The cells that are parameters of the op; a table may have other columns too."""
    op = find(row.get("op", ""))
    return {name: value for name, value in row.items() if name in op.params and value}
