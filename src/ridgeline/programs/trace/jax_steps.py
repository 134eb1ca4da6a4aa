"""A jaxpr as one list of steps: calls taken apart, loops entered once with their number of trips, branches listed.

    jit, custom derivatives, checkpoint   replaced by their bodies; a body that appears twice (rematerialisation) counts twice
    scan          its body, times its length; stacked inputs are sliced and stacked outputs written trip by trip
    while         its condition and body; times the trips where a counter decides them, else once, which a note says
    cond          every branch, marked, so that the totals can take one of them
    shard_map     its body, which is what one rank does; the sizes of the mesh axes go with its steps

Steps that JAX does not have are what loops, branches and ranks do with memory: `carry`, `trip`, `collect`, `join`, `shard`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .jax_places import joined_scope, located

CARRY, TRIP, COLLECT, JOIN, SHARD = "carry", "trip", "collect", "join", "shard"
# Primitives that are their body, by the parameter that holds it.
BODIES = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat2": "jaxpr", "remat": "jaxpr", "checkpoint": "jaxpr", "custom_vmap_call": "call", "composite": "jaxpr",
    "custom_lin": "jaxpr",
}  # fmt: skip
UNNAMED = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "closed_call", "core_call", "call")
WIDTHS = {"float0": "bool", "uint4": "int4", "float8_e4m3b11fnuz": "fp8_e4m3", "float8_e4m3": "fp8_e4m3"}


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


@dataclass(eq=False, slots=True)
class Value:
    """An array of the program. Where its elements lie is settled step by step: a view shares the buffer of its base."""

    shape: tuple[int, ...]
    dtype: str
    number: Any = None  # of a constant without dimensions
    strides: tuple[int, ...] = ()
    buffer: int = -1  # none: a constant or counter that is made where it is read
    reverse: bool = False  # whether it is read backwards
    maker: Step | None = None
    loops: tuple[int, ...] = ()  # around its definition

    def __post_init__(self) -> None:
        self.strides = self.strides or contiguous(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Place:
    """Where a step is: what surrounds it, and how often it runs."""

    scope: str = ""  # `jit(step)/jvp(mlp)/dense`
    source: str = ""
    times: float = 1.0
    loops: tuple[int, ...] = ()
    branches: tuple[tuple[int, int], ...] = ()  # conditional and branch, outermost first
    axes: Mapping[str, int] = field(default_factory=dict)  # sizes of the mesh


@dataclass(eq=False, slots=True)
class Step:
    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    params: Mapping[str, Any]
    place: Place


class Steps:
    """The steps of a program, in order, made by `run`."""

    def __init__(self) -> None:
        self.listed: list[Step] = []
        self.notes: list[str] = []
        self.constants: dict[int, Value] = {}  # arrays that functions close over, by identity
        self.loop_ends: list[int] = []  # per loop: the number of steps when it was left
        self.conditionals = 0

    def run(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Value], place: Place) -> list[Value]:
        """Add the steps of a jaxpr; its results."""
        known: dict[Any, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
        known.update(zip(jaxpr.constvars, (self._constant(array) for array in consts), strict=True))

        for equation in jaxpr.eqns:
            given = [_literal(atom) if hasattr(atom, "val") else known[atom] for atom in equation.invars]
            known.update(zip(equation.outvars, self._equation(equation, given, place), strict=True))
        return [_literal(atom) if hasattr(atom, "val") else known[atom] for atom in jaxpr.outvars]

    def _constant(self, array: Any) -> Value:
        if id(array) not in self.constants:
            self.constants[id(array)] = Value(tuple(map(int, array.shape)), dtype_name(array.dtype))
        return self.constants[id(array)]

    def _equation(self, equation: Any, given: list[Value], outer: Place) -> list[Value]:
        name, params = str(equation.primitive.name), equation.params
        line, unit = located(equation.source_info.traceback)
        scope = joined_scope(outer.scope, str(equation.source_info.name_stack), unit)
        place = replace(outer, scope=scope, source=line or outer.source)
        if name in BODIES and BODIES[name] in params:
            return self._body(name, params, given, place)
        if name == "shard_map":
            return self._sharded(equation, given, place)
        if name == "custom_linear_solve":
            return self._solve(params, given, place)
        if name == "scan":
            return self._scan(equation, given, place)
        if name == "while":
            return self._while(params, given, place)
        if name == "cond":
            return self._cond(params, given, place)
        outputs = tuple(_value(variable.aval, place) for variable in equation.outvars)
        self._add(name, given, outputs, params, place)
        return list(outputs)

    def _add(
        self, name: str, inputs: Iterable[Value], outputs: Iterable[Value], params: Mapping[str, Any], place: Place
    ) -> None:
        step = Step(name, tuple(inputs), tuple(outputs), params, place)
        for value in step.outputs:
            value.maker = step
        self.listed.append(step)

    def _body(self, name: str, params: Mapping[str, Any], given: list[Value], place: Place) -> list[Value]:
        jaxpr, consts = _opened(params[BODIES[name]])
        label = f"{name}({params['name']})" if "name" in params and name not in UNNAMED else ""
        if name == "composite" or label:
            place = replace(place, scope=joined_scope(place.scope, label))
        return self.run(jaxpr, consts, given, place)

    def _sharded(self, equation: Any, given: list[Value], place: Place) -> list[Value]:
        """What one rank does with its shards; results are arrays of all ranks again."""
        jaxpr, consts = _opened(equation.params["jaxpr"])
        sizes = {str(axis): int(size) for axis, size in dict(equation.params["mesh"].shape).items()}
        inner = replace(place, axes={**place.axes, **sizes})
        shards = [_value(variable.aval, place) for variable in jaxpr.invars]
        for value, shard in zip(given, shards, strict=True):
            self._add(SHARD, (value,), (shard,), {}, inner)
        results = self.run(jaxpr, consts, shards, inner)
        outputs = [_value(variable.aval, place) for variable in equation.outvars]
        for value, output in zip(results, outputs, strict=True):
            self._add(SHARD, (value,), (output,), {}, inner)
        return outputs

    def _solve(self, params: Mapping[str, Any], given: list[Value], place: Place) -> list[Value]:
        """A linear solve with derivatives of its own: the function that solves it."""
        sizes = params["const_lengths"]
        first = sizes.matvec + sizes.vecmat
        jaxpr, consts = _opened(params["jaxprs"].solve)
        return self.run(jaxpr, consts, [*given[first : first + sizes.solve], *given[sum(sizes) :]], place)

    # -- loops -------------------------------------------------------------------------------------------------------

    def _scan(self, equation: Any, given: list[Value], place: Place) -> list[Value]:
        """Its body, once per trip. Which operands are constants, carried or sliced follows from the shapes within the body:
        versions of JAX record it in different ways."""
        jaxpr, consts = _opened(equation.params["jaxpr"])
        length = int(equation.params["length"])
        carried = sum(_shape(out) == _shape(inner) for out, inner in zip(equation.outvars, jaxpr.outvars, strict=True))
        sliced = sum(value.shape != _shape(inner) for value, inner in zip(given, jaxpr.invars, strict=True))
        fixed = len(given) - carried - sliced
        inner = self._entered(place, float(length))
        carry = self._carried(given[fixed : fixed + carried], jaxpr.invars[fixed:], jaxpr.outvars, place, inner)
        slices = [_value(variable.aval, inner) for variable in jaxpr.invars[fixed + carried :]]
        for stacked, part in zip(given[fixed + carried :], slices, strict=True):
            self._add(TRIP, (stacked,), (part,), {}, inner)
        results = self.run(jaxpr, consts, [*given[:fixed], *carry, *slices], inner)
        stacks = [Value((length, *value.shape), value.dtype, loops=place.loops) for value in results[carried:]]
        for value, stack in zip(results[carried:], stacks, strict=True):
            self._add(COLLECT, (value,), (stack,), {}, inner)
        return [*self._left(results[:carried], inner, place), *stacks]

    def _while(self, params: Mapping[str, Any], given: list[Value], place: Place) -> list[Value]:
        condition, condition_consts = _opened(params["cond_jaxpr"])
        body, body_consts = _opened(params["body_jaxpr"])
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        trips = _trips(condition, body, given, first, second)
        if trips is None:
            where = f" at {place.source}" if place.source else ""
            self.notes.append(f"while loop{where}: its trip count depends on data; its body is counted once")
        inner = self._entered(place, 1.0 if trips is None else float(trips))
        carry = self._carried(given[second:], body.invars[second - first :], body.outvars, place, inner)
        self.run(condition, condition_consts, [*given[:first], *carry], inner)
        results = self.run(body, body_consts, [*given[first:second], *carry], inner)
        return self._left(results, inner, place)

    def _entered(self, place: Place, trips: float) -> Place:
        self.loop_ends.append(0)
        loops = (*place.loops, len(self.loop_ends) - 1)
        scope = joined_scope(place.scope, "while/body")
        return replace(place, times=place.times * trips, loops=loops, scope=scope)

    def _carried(
        self, initial: Sequence[Value], invars: Sequence[Any], outvars: Sequence[Any], place: Place, inner: Place
    ) -> list[Value]:
        """The values that a trip hands to the next; those it changes need memory of their own."""
        carry = []
        for value, variable, result in zip(initial, invars, outvars, strict=False):
            state = Value(value.shape, value.dtype, loops=inner.loops)
            self._add(CARRY, (value,), (state,), {"changes": result is not variable}, place)
            carry.append(state)
        return carry

    def _left(self, results: Sequence[Value], inner: Place, place: Place) -> list[Value]:
        """The values of the last trip."""
        self.loop_ends[inner.loops[-1]] = len(self.listed)
        outputs = [Value(value.shape, value.dtype, loops=place.loops) for value in results]
        for value, output in zip(results, outputs, strict=True):
            self._add(JOIN, (value,), (output,), {}, place)
        return outputs

    def _cond(self, params: Mapping[str, Any], given: list[Value], place: Place) -> list[Value]:
        number = self.conditionals
        self.conditionals += 1
        results = []
        for branch, closed in enumerate(params["branches"]):
            jaxpr, consts = _opened(closed)
            inside = replace(
                place,
                branches=(*place.branches, (number, branch)),
                scope=joined_scope(place.scope, f"branch_{branch}_fun"),
            )
            results.append(self.run(jaxpr, consts, given[1:], inside))
        outputs = [Value(value.shape, value.dtype, loops=place.loops) for value in results[0]]
        for output, *values in zip(outputs, *results, strict=True):
            self._add(JOIN, values, (output,), {}, place)
        return outputs


def dtype_name(dtype: Any) -> str:
    """JAX's name of a format, or that of one as wide; a key of the random generators is 8 bytes."""
    text = str(dtype)
    return "uint64" if text.startswith("key<") else WIDTHS.get(text, text)


def _value(aval: Any, place: Place) -> Value:
    shape = tuple(int(size) for size in getattr(aval, "shape", (0,)))  # tokens hold nothing
    return Value(shape, dtype_name(getattr(aval, "dtype", "bool")), loops=place.loops)


def _literal(atom: Any) -> Value:
    number = atom.val
    plain = number.item() if hasattr(number, "item") and math.prod(getattr(number, "shape", ())) == 1 else number
    return Value(tuple(atom.aval.shape), dtype_name(atom.aval.dtype), plain, (0,) * len(atom.aval.shape))


def _shape(atom: Any) -> tuple[int, ...]:
    return tuple(map(int, atom.aval.shape))


def _opened(closed: Any) -> tuple[Any, Sequence[Any]]:
    """The jaxpr and its constants; those of an open jaxpr are among its inputs."""
    return (closed.jaxpr, closed.consts) if hasattr(closed, "consts") else (closed, ())


def _trips(condition: Any, body: Any, given: Sequence[Value], first: int, second: int) -> int | None:
    """Trips of a loop that counts from a number up to another: `i < n` with i + step in the body; None for any other."""
    if first or len(condition.eqns) != 1 or condition.eqns[0].primitive.name not in ("lt", "le"):
        return None
    test = condition.eqns[0]
    counter, limit = test.invars
    if not hasattr(limit, "val") or hasattr(counter, "val") or test.outvars[0] is not condition.outvars[0]:
        return None
    at = condition.invars.index(counter)
    start, state = given[second + at].number, body.invars[second - first + at]
    steps = [
        equation.invars[1].val
        for equation in body.eqns
        if equation.primitive.name == "add" and equation.outvars[0] is body.outvars[at]
        if equation.invars[0] is state and hasattr(equation.invars[1], "val")
    ]
    if start is None or not steps or steps[0] <= 0:
        return None
    inclusive = 1 if test.primitive.name == "le" else 0
    return max(0, math.ceil((int(limit.val) + inclusive - int(start)) / int(steps[0])))
