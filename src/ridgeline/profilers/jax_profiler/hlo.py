"""The compiled programs that JAX keeps next to a trace: instructions with shapes, names and source lines.

`jax.profiler.trace` writes them into the `.xplane.pb` of the run (plane `/host:metadata`, statistic `Hlo Proto`). The field
numbers are those of XLA's `hlo.proto`, `xla_data.proto` and `xplane.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...core.cached import cached_property
from ...core.intake import clean, refuse_over
from ...core.timeline import Tensor
from ..frames import user_line
from .wire import integer, integers, messages, text

METADATA = "/host:metadata"
# PrimitiveType of xla_data.proto
DTYPES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
    10: "fp16", 11: "fp32", 12: "fp64", 15: "complex64", 16: "bf16", 18: "complex128", 19: "fp8_e5m2", 20: "fp8_e4m3",
    21: "int4", 22: "uint4",
}  # fmt: skip
MAX_RANK = 64
MAX_PADDING = 1 << 20
MAX_FRAMES = 200
PLUMBING = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "iota", "partition-id", "replica-id",
    "opt-barrier", "add-dependency",
})  # fmt: skip

LIBRARY = "custom-call"
CONTROL = frozenset({"while", "conditional", "call", "async-start"})  # what they call runs by itself


class Convolved(NamedTuple):
    """Where a convolution has its dimensions: (batch, features, spatial) of the input, (output, input, spatial) of the filter."""

    input: tuple[int, ...]
    filter: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True)
class Instruction:
    name: str
    opcode: str
    outputs: tuple[Tensor, ...]
    ident: int
    operands: tuple[int, ...] = ()
    called: tuple[int, ...] = ()
    target: str = ""  # of a call of a library
    config: str = ""  # what the compiler tells that library
    contracted: tuple[tuple[int, ...], ...] = ()  # of a dot: contracting of left and right, batch of left and right
    convolved: Convolved | None = None
    op_name: str = ""  # `jit(step)/jvp()/mlp/dot_general`
    source: str = ""


@dataclass(frozen=True)
class Module:
    name: str
    computations: Mapping[int, tuple[Instruction, ...]]
    lines: Mapping[int, str] = field(default_factory=dict)
    number: int = -1  # of the program, which tells it from others of its name

    @cached_property
    def by_ident(self) -> dict[int, Instruction]:
        return {item.ident: item for items in self.computations.values() for item in items}

    @cached_property
    def kernels(self) -> dict[str, Instruction]:
        """The instructions that run by themselves, by name: those outside fusions and reducers that are no plumbing."""
        fused = {ident for item in self.by_ident.values() if item.opcode not in CONTROL for ident in item.called}
        outside = (items for ident, items in self.computations.items() if ident not in fused)
        return {item.name: item for items in outside for item in items if item.opcode not in PLUMBING}

    @cached_property
    def generated(self) -> dict[str, Instruction]:
        """The instructions by the names of their kernels, of those that the compiler generates."""
        return {kernel_name(item.name): item for item in self.kernels.values() if item.opcode != LIBRARY}

    @cached_property
    def differentiates(self) -> bool:
        return any("jvp(" in item.op_name for item in self.kernels.values())

    def inner(self, item: Instruction) -> tuple[Instruction, ...]:
        """The instructions of a fusion; an instruction alone is its own."""
        return tuple(part for ident in item.called for part in self.computations.get(ident, ())) or (item,)

    def operands(self, item: Instruction) -> tuple[Tensor, ...]:
        known = (self.by_ident.get(ident) for ident in item.operands)
        return tuple(tensor for operand in known if operand is not None for tensor in operand.outputs)

    def producers(self, item: Instruction) -> set[str]:
        """The kernels whose results an instruction reads, through tuples and views."""
        names: set[str] = set()
        waiting, seen = list(item.operands), set[int]()
        while waiting:
            ident = waiting.pop()
            operand = self.by_ident.get(ident)
            if ident in seen or operand is None:
                continue
            seen.add(ident)
            if operand.name in self.kernels:
                names.add(operand.name)
            else:
                waiting += operand.operands
        return names


def kernel_name(instruction: str) -> str:
    return instruction.replace(".", "_").replace("-", "_")


def modules(path: Path) -> dict[str, list[Module]]:
    """The programs in an `.xplane.pb` by name; one of each for every set of shapes it was compiled for."""
    refuse_over("document", path.stat().st_size, f"'{path}'")
    programs: dict[str, list[Module]] = {}
    space = memoryview(path.read_bytes())
    for plane in messages(space, 1):
        if text(plane, 2) != METADATA:
            continue
        for entry in messages(plane, 4):
            for event in messages(entry, 2):
                for statistic in messages(event, 5):
                    for proto in messages(statistic, 6):
                        for module in messages(proto, 1):
                            made = _module(module)
                            programs.setdefault(made.name, []).append(made)
    return programs


def _module(message: memoryview) -> Module:
    lines = {}
    for index in messages(message, 17):
        lines = _lines(index)
    computations = {
        integer(computation, 5): tuple(_instruction(item, lines) for item in messages(computation, 2))
        for computation in messages(message, 3)
    }
    return Module(clean(text(message, 1)), computations, lines, integer(message, 5))


def _lines(index: memoryview) -> dict[int, str]:
    """By the number of a stack frame, the innermost line of the user's program in it."""
    files = [bytes(name).decode("utf-8", "replace") for name in messages(index, 1)]
    functions = [bytes(name).decode("utf-8", "replace") for name in messages(index, 2)]
    places = [(integer(item, 1), integer(item, 2), integer(item, 3)) for item in messages(index, 3)]
    frames = [(integer(item, 1), integer(item, 2)) for item in messages(index, 4)]
    lines = {}
    for number in range(1, len(frames) + 1):
        frame, line = number, ""
        for _ in range(MAX_FRAMES):
            if line or not 1 <= frame <= len(frames):
                break
            place, frame = frames[frame - 1]
            if 1 <= place <= len(places):
                file, function, at = places[place - 1]
                if 1 <= file <= len(files) and 1 <= function <= len(functions):
                    line = user_line(files[file - 1], at, functions[function - 1])
        lines[number] = line
    return lines


def _instruction(message: memoryview, lines: Mapping[int, str]) -> Instruction:
    metadata = next(messages(message, 7), memoryview(b""))
    contracted = tuple(tuple(integers(dims, number) for number in (1, 2, 3, 4)) for dims in messages(message, 30))
    config = next((bytes(value).decode("utf-8", "replace") for value in messages(message, 43)), "")
    return Instruction(
        clean(text(message, 1)),
        clean(text(message, 2)),
        tuple(tensor for shape in messages(message, 3) for tensor in _tensors(shape)),
        integer(message, 35),
        integers(message, 36),
        integers(message, 38),
        clean(text(message, 28)),
        config,
        contracted[0] if contracted else (),
        _convolved(message),
        clean(text(metadata, 2)),
        lines.get(integer(metadata, 15)) or user_line(text(metadata, 3), integer(metadata, 4), ""),
    )


def _convolved(message: memoryview) -> Convolved | None:
    """None for an instruction that is no convolution, and for one whose input is spread (a transposed convolution)."""
    numbers = next(messages(message, 16), None)
    windows = [list(messages(window, 1)) for window in messages(message, 15)]
    if numbers is None or not windows:
        return None
    if any(integer(dim, 6) > 1 or max(integer(dim, 3), integer(dim, 4)) > MAX_PADDING for dim in windows[0]):
        return None  # negative padding is a large number here
    return Convolved(
        (integer(numbers, 7), integer(numbers, 8), *integers(numbers, 11)),
        (integer(numbers, 4), integer(numbers, 3), *integers(numbers, 6)),
        tuple(integer(dim, 2) or 1 for dim in windows[0]),
        tuple((integer(dim, 3), integer(dim, 4)) for dim in windows[0]),
        tuple(integer(dim, 5) or 1 for dim in windows[0]),
        integer(message, 50) or 1,
    )


def _tensors(shape: memoryview) -> Iterator[Tensor]:
    """The tensor of a shape, or those of a tuple."""
    inner = list(messages(shape, 4))
    for item in inner[:MAX_RANK]:
        if not any(True for _ in messages(item, 4)):
            yield from _tensors(item)
    dims = integers(shape, 3)
    dtype = DTYPES.get(integer(shape, 2))
    if not inner and dtype and len(dims) <= MAX_RANK and all(size < 2**62 for size in dims):
        yield Tensor(dims, dtype)
