"""Which instructions the kernels of a CUDA graph ran: XLA's command buffers name the graph in place of the instruction.

A generated kernel has the name of its instruction, or that of another one with the same computation, whose kernel serves
both. A kernel of a library has none. Kernels run in an order that the data allow, so a library call is done when the first
kernel that reads its result begins: the library kernels before it that are not yet given away ran the library calls it
reads, in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .hlo import LIBRARY, Instruction, Module


def instructions(module: Module, kernels: Sequence[str], ran: Collection[str] = ()) -> list[str]:
    """For each kernel of a replay, in order, the name of its instruction; empty where that cannot be told.

    `ran` are instructions that the trace names itself, inside the graph or before it: their results are there.
    """
    pending: list[int] = []  # places of library kernels that are not given away
    given = [""] * len(kernels)
    done: set[str] = {name for name in ran if name in module.kernels}
    for place, kernel in enumerate(kernels):
        named = module.generated.get(kernel)
        if named is None:
            pending.append(place)
            continue
        choice = _choice(module, named, done, len(pending))
        if choice is None:
            return [""] * len(kernels)  # not the program that ran
        for call in _missing(module, choice, done):
            given[pending.pop(0)] = call
            done.add(call)
        given[place] = choice.name
        done.add(choice.name)
    rest = [item.name for item in module.kernels.values() if item.opcode == LIBRARY and item.name not in done]
    if len(rest) == len(pending):
        for place, call in zip(pending, rest, strict=True):
            given[place] = call
    return given


def _choice(module: Module, named: Instruction, done: set[str], pending: int) -> Instruction | None:
    """The instruction of this name, else the first with its computation, that has not run and whose inputs may be there."""
    for item in (named, *module.kernels.values()):
        if item.name in done or (item is not named and _computation(module, item) != _computation(module, named)):
            continue
        missing = _missing(module, item, done)
        others = module.producers(item) - done - set(missing)
        ready = all(module.producers(module.kernels[call]) <= done for call in missing)
        if not others and ready and len(missing) <= pending:
            return item
    return None


def _missing(module: Module, item: Instruction, done: set[str]) -> list[str]:
    """The library calls that an instruction reads and that are not yet known to have run, in the program's order."""
    read = module.producers(item) - done
    return [name for name, other in module.kernels.items() if name in read and other.opcode == LIBRARY]


def _computation(module: Module, item: Instruction) -> tuple[object, ...]:
    inner = tuple((part.opcode, part.outputs) for part in module.inner(item))
    return item.opcode, module.operands(item), item.outputs, inner
