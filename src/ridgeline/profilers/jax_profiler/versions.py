"""Which of several programs of one name ran: JAX compiles an operation anew for every set of shapes.

The binary profile says it for each run (`program_id` of an event, and the number of the run or of the launch, which the
plain trace has too). Of a trace without that, an elementwise kernel is known by the threads it was launched with.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...core.timeline import Tensor
from .hlo import Instruction, Module
from .wire import fields, integer, messages, text, varint

_GEOMETRY = re.compile(r"grid:(\d{1,10}),(\d{1,10}),(\d{1,10}) block:(\d{1,4}),(\d{1,4}),(\d{1,4})")
_DIGITS = re.compile(r"-?\d{1,20}")
ELEMENTS_PER_THREAD = (4, 2, 1)  # of XLA's elementwise loops; as many as the size of the array allows
SAME_SIZE = 1.01  # ratio of elements, up to which versions of a program count as one
WORD = (1 << 64) - 1
DEVICE, HOST = "/device:", "/host:"
PROGRAM, LAUNCH, RUN = "program_id", "correlation_id", "run_id"
Version = tuple[Module, Instruction]


class Geometry(NamedTuple):
    """Threads of a kernel and of each of its blocks; 0 where they were not recorded."""

    threads: int
    block: int


UNKNOWN_GEOMETRY = Geometry(0, 0)


def run_number(args: Mapping[str, Any]) -> int:
    """The number of the launch of a kernel, else that of the run of a program on a host; 0 where there is none."""
    for key in (LAUNCH, RUN):
        value = str(args.get(key, ""))
        if _DIGITS.fullmatch(value):
            return int(value) & WORD
    return 0


def programs_of_runs(path: Path) -> dict[int, int]:
    """By the number of a launch or run, the number of the program that it ran."""
    planes = [(text(plane, 2), plane) for plane in messages(memoryview(path.read_bytes()), 1)]
    devices = [plane for name, plane in planes if name.startswith(DEVICE)]
    programs: dict[int, int] = {}
    for plane in devices or [plane for name, plane in planes if name.startswith(HOST)]:
        programs |= _programs(plane)
    return programs


def _programs(plane: memoryview) -> dict[int, int]:
    names = {integer(entry, 1): text(named, 2) for entry in messages(plane, 5) for named in messages(entry, 2)}
    numbers = {name: number for number, name in names.items()}
    if PROGRAM not in numbers:
        return {}
    mark = b"\x08" + varint(numbers[PROGRAM])  # how a statistic of that name begins; most events have none
    runs: dict[int, int] = {}
    for line in messages(plane, 3):
        for event in messages(line, 4):
            if mark not in bytes(event):
                continue
            read = {names.get(integer(statistic, 1), ""): _value(statistic) for statistic in messages(event, 4)}
            number = read.get(LAUNCH) or read.get(RUN)
            if number and PROGRAM in read:
                runs[number & WORD] = read[PROGRAM]
    return runs


def _value(statistic: memoryview) -> int:
    return next((value for key, value in fields(statistic) if key in (3, 4) and isinstance(value, int)), 0)


def geometry(args: Mapping[str, Any]) -> Geometry:
    sizes = _GEOMETRY.search(str(args.get("kernel_details", "")))
    if not sizes:
        return UNKNOWN_GEOMETRY
    block = math.prod(map(int, sizes.groups()[3:]))
    return Geometry(math.prod(map(int, sizes.groups()[:3])) * block, block)


def fitting(versions: Sequence[Version], launch: Geometry) -> Version | tuple[None, None]:
    """The version whose result has as many elements as the threads of an elementwise loop compute, 4 each or fewer.

    Versions of one size, such as a matrix and its transpose, move the same bytes; the first stands for them.
    """
    for each in ELEMENTS_PER_THREAD:
        fit = [
            pair for pair in versions if 0 <= launch.threads * each - _elements(pair[1].outputs) < launch.block * each
        ]
        moved = [sum(_elements([tensor]) for tensor in (*module.operands(item), *item.outputs)) for module, item in fit]
        if fit:
            return fit[0] if max(moved) <= SAME_SIZE * min(moved) else (None, None)
    return None, None


def _elements(tensors: Sequence[Tensor]) -> int:
    return max((math.prod(tensor.shape) for tensor in tensors), default=0)
