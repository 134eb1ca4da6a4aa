"""Memory of a JAX program: its buffers as they are made, how long they are needed, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.timeline import BACKWARD, FORWARD
from ...core.trace import ACTIVATION, GRADIENT, HOLDS, INPUT, PARAMETER, STATE, TEMPORARY, Buffers
from ..aten.formats import format_of
from .jax_steps import Value, contiguous


@dataclass
class Memory:
    """The buffers of a program as they are made: size, and the calls and loops that touch them."""

    sizes: list[float] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    loops: list[tuple[int, ...]] = field(default_factory=list)  # around the allocation
    used_in: list[set[tuple[int, ...]]] = field(default_factory=list)
    sharing: list[list[Value]] = field(default_factory=list)  # the values that lie in it
    given: set[int] = field(default_factory=set)  # those of the caller, which stay as they are

    def allocate(self, value: Value, call: int, loops: tuple[int, ...]) -> None:
        row = format_of(value.dtype)
        self.sizes.append(value.size * (row.bytes if row else 0.0))
        self.born.append(call)
        self.last.append(call)
        self.loops.append(loops)
        self.used_in.append(set())
        self.sharing.append([value])
        value.buffer, value.strides, value.reverse = len(self.sizes) - 1, contiguous(value.shape), False

    def share(self, value: Value, base: Value, strides: tuple[int, ...]) -> None:
        value.buffer, value.strides, value.reverse = base.buffer, strides, base.reverse
        if base.buffer >= 0:
            self.sharing[base.buffer].append(value)

    def touch(self, buffer: int, call: int, loops: tuple[int, ...]) -> None:
        self.last[buffer] = max(self.last[buffer], call)
        self.used_in[buffer].add(loops)


def held_by_arguments(jax: Any, shaped: tuple[tuple[Any, ...], dict[str, Any]]) -> list[str]:
    """What each array of the arguments holds, by their structure: JAX does not say.

    The first argument that is a container holds parameters; further ones whose arrays of more than one element all have shapes
    of parameters hold the optimizer's state; other arguments are inputs.
    """
    kinds: list[str] = []
    parameters: set[tuple[int, ...]] = set()
    for arg in [*shaped[0], *(shaped[1][key] for key in sorted(shaped[1]))]:
        leaves = jax.tree_util.tree_leaves(arg)
        shapes = {tuple(leaf.shape) for leaf in leaves if getattr(leaf, "shape", ()) != ()}
        container = len(leaves) != 1 or leaves[0] is not arg
        kind = INPUT
        if container and shapes and not parameters:
            kind, parameters = PARAMETER, shapes
        elif container and shapes and shapes <= parameters:
            kind = STATE
        kinds += [kind] * len(leaves)
    return kinds


def buffers(
    memory: Memory,
    phases: Sequence[str],
    loop_calls: Mapping[int, Sequence[int]],
    given: Sequence[Value],
    kinds: Sequence[str],
    results: Sequence[Value],
) -> Buffers:
    """Lifetimes by liveness: a buffer from outside of a loop is needed until the loop ends.

    `phases` are those of the calls, `loop_calls` the first and last call of each loop, `kinds` what the given arrays hold.
    """
    calls = len(phases)
    dies = [last + 1 for last in memory.last]
    for buffer, uses in enumerate(memory.used_in):
        for loops in uses:
            outside = [loop for loop in loops if loop not in memory.loops[buffer]]
            if outside and outside[0] in loop_calls:
                dies[buffer] = max(dies[buffer], loop_calls[outside[0]][1] + 1)
    kind = dict(zip((value.buffer for value in given), kinds, strict=True))
    kept = {value.buffer for value in results if value.buffer >= 0}
    sizes = {(value.shape, value.dtype): what for value, what in zip(given, kinds, strict=True) if what != INPUT}
    shapes = {value.buffer: (value.shape, value.dtype) for value in results}
    for buffer in range(len(memory.sizes)):
        if buffer in kind:
            dies[buffer] = calls + 1
            continue
        born = phases[memory.born[buffer]] if calls else FORWARD
        last = phases[min(memory.last[buffer], calls - 1)] if calls else FORWARD
        trained = any((value.shape, value.dtype) in sizes for value in memory.sharing[buffer])
        if born == BACKWARD and trained and (buffer in kept or last not in (BACKWARD, FORWARD)):
            kind[buffer] = GRADIENT
        elif buffer in kept:  # a new version of what was given, in a step that trains; else a result
            given_as = sizes.get(shapes.get(buffer, ((), ""))) if BACKWARD in phases else None
            kind[buffer] = given_as or ACTIVATION
        else:
            kind[buffer] = ACTIVATION if born != BACKWARD and last == BACKWARD else TEMPORARY
        if buffer in kept:
            dies[buffer] = calls + 1
    places = {name: number for number, name in enumerate(HOLDS)}
    return Buffers(
        np.array(memory.sizes, dtype=np.float64),
        np.array([places[kind[buffer]] for buffer in range(len(memory.sizes))], dtype=np.int64),
        np.array(memory.born, dtype=np.int64),
        np.array(dies, dtype=np.int64),
    )
