"""trace_jax: any JAX function as a Trace, from its jaxpr; nothing is computed and no device is used.

    trace_jax(train_step, (params, batch))

Arguments are arrays of JAX or NumPy, `jax.ShapeDtypeStruct`s, numbers, and containers of these. Tracing runs the user's
Python code once, with arrays that have a shape and a format and no values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...core.errors import InputError, RidgelineError
from ...core.trace import PARAMETER, Trace
from .jax_build import Builder
from .jax_errors import failure, refused
from .jax_memory import buffers, held_by_arguments
from .jax_steps import Place, Steps, Value, dtype_name

RIDGE = 100.0  # flops that weigh as much as a byte where two branches are compared: near the ridge point of a GPU
CUDNN = 91000  # the version that programs which ask for cuDNN's attention are traced for
NUMBERS = (bool, int, float, complex, np.generic)


def trace_jax(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = False,
    name: str = "",
) -> Trace:
    """What one call of a function does. With `backward`, the sum of its results is differentiated by all its real arguments."""
    try:
        import jax
        from jax.interpreters import partial_eval
    except ImportError:
        raise InputError("tracing a JAX program needs JAX, which is not installed: pip install 'jax>=0.10'") from None
    if not callable(function):
        raise InputError(f"a program to trace is a function; {type(function).__name__} cannot be called")
    title = name or _name(function)
    shaped = _shapes(jax, tuple(args), dict(kwargs or {}))
    try:
        with _with_cudnn():
            traced = _summed(jax, function, shaped[0]) if backward else function
            closed = jax.make_jaxpr(traced)(*shaped[0], **shaped[1])
    except RidgelineError:
        raise
    except Exception as error:
        raise failure(error, title) from error
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    steps = Steps()
    inputs = [_argument(variable.aval) for variable in jaxpr.invars]
    top = "" if [str(item.primitive.name) for item in jaxpr.eqns] == ["jit"] else f"jit({title})"
    results = steps.run(jaxpr, closed.consts, inputs, Place(scope=top))
    differentiates = any("jvp(" in step.place.scope for step in steps.listed)
    builder = Builder(steps, differentiates)
    held = [*inputs, *steps.constants.values()]
    builder.given(held)
    builder.build(results)
    times, notes = _branches(builder, steps)
    kinds = [*held_by_arguments(jax, shaped), *[PARAMETER] * len(steps.constants)]
    phases = [builder.ops[op].site.phase for op in builder.op]
    return Trace(
        tuple(builder.ops),
        np.array(builder.op, dtype=np.int64),
        times,
        tuple(builder.reads),
        tuple(builder.writes),
        buffers(builder.memory, phases, builder.loop_calls, held, kinds, results),
        title,
        "jax",
        (*steps.notes, *notes, *_sharded(steps)),
        {"jax": jax.__version__, "compiler": "XLA"},
    )


def _name(function: Callable[..., Any]) -> str:
    inner = function
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    return str(getattr(inner, "__name__", type(inner).__name__))


# -- arguments -----------------------------------------------------------------------------------------------------------


def _shapes(jax: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with structs in place of arrays."""
    leaves, tree = jax.tree_util.tree_flatten_with_path((args, kwargs))
    structs = []
    for path, leaf in leaves:
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, np.generic):
            try:
                structs.append(jax.ShapeDtypeStruct(leaf.shape, _canonical(jax, leaf.dtype)))
                continue
            except (TypeError, ValueError):
                pass
        elif isinstance(leaf, NUMBERS):
            structs.append(leaf)
            continue
        raise refused(jax.tree_util.keystr(path[1:]), leaf)
    shaped: tuple[tuple[Any, ...], dict[str, Any]] = jax.tree_util.tree_unflatten(tree, structs)
    return shaped


def _canonical(jax: Any, dtype: Any) -> Any:
    """The format that JAX computes in: 64-bit ones are halved unless they are enabled; keys stay keys."""
    return dtype if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else jax.dtypes.canonicalize_dtype(dtype)


def _argument(aval: Any) -> Value:
    return Value(tuple(int(size) for size in aval.shape), dtype_name(aval.dtype))


def _summed(jax: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """The function and the gradient of the sum of its real results by the arguments that hold real numbers."""

    def is_real(leaf: Any) -> bool:
        return bool(np.issubdtype(jax.dtypes.result_type(leaf), np.inexact)) or "float" in str(
            getattr(leaf, "dtype", "")
        )

    def loss(*given: Any, **named: Any) -> Any:
        results = jax.tree_util.tree_leaves(function(*given, **named))
        real = [item for item in results if is_real(item)]
        if not real:
            raise InputError("the program returns no real numbers to differentiate; trace it without backward")
        return sum(item.astype("float32").sum() for item in map(jax.numpy.asarray, real))

    chosen = [place for place, arg in enumerate(args) if any(map(is_real, jax.tree_util.tree_leaves(arg)))]
    if not chosen:
        raise InputError("no argument of the program holds real numbers to differentiate by; trace it without backward")
    differentiated: Callable[..., Any] = jax.value_and_grad(loss, tuple(chosen), allow_int=True)
    return differentiated


@contextmanager
def _with_cudnn() -> Iterator[None]:
    """Programs that ask for cuDNN's attention are traced as on a GPU of the Hopper generation; JAX looks for one otherwise."""
    try:
        from jax._src.cudnn import fused_attention_stablehlo as attention
    except ImportError:  # JAX moved it: such programs then need a GPU
        yield
        return
    stand_ins: dict[str, Callable[..., Any]] = {
        "check_cudnn_version": lambda: CUDNN,
        "check_compute_capability": lambda capability: float(capability) <= 9.0,
        "is_cuda_compute_capability_equal": lambda capability: capability == "9.0",
    }
    kept = {key: getattr(attention, key) for key in stand_ins if hasattr(attention, key)}
    try:
        for key in kept:
            setattr(attention, key, stand_ins[key])
        yield
    finally:
        for key, function in kept.items():
            setattr(attention, key, function)


# -- totals --------------------------------------------------------------------------------------------------------------


def _branches(builder: Builder, steps: Steps) -> tuple[np.ndarray, list[str]]:
    """How often each call runs; of a conditional, the branch with the most work counts and the others run 0 times.

    Work is compared as bytes plus flops over a ridge point, which is a time on no machine in particular.
    """
    times = np.array([place.times for place in builder.places], dtype=np.float64)
    works = [op.work for op in builder.ops]
    costs = [0.0 if work is None else float(np.max(work.bytes + work.flops / RIDGE)) for work in works]
    members: dict[tuple[int, int], list[int]] = {}
    for call, place in enumerate(builder.places):
        for taken in place.branches:
            members.setdefault(taken, []).append(call)
    sources = [step.place for step in steps.listed if step.place.branches]
    notes = []
    for number in reversed(range(steps.conditionals)):  # inner conditionals follow the outer ones
        totals = {
            branch: sum(costs[builder.op[call]] * times[call] for call in calls)
            for (conditional, branch), calls in members.items()
            if conditional == number
        }
        if not totals:
            continue
        kept = max(totals, key=lambda branch: (totals[branch], -branch))
        for branch in totals:
            if branch != kept:
                times[members[number, branch]] = 0.0
        where = next((place.source for place in sources if number in dict(place.branches)), "")
        at = f" at {where}" if where else ""
        notes.append(
            f"cond{at}: the totals count branch {kept}, which has the most work; the others are listed with 0 calls"
        )
    return times, notes[::-1]


def _sharded(steps: Steps) -> list[str]:
    notes = []
    if any(step.place.axes for step in steps.listed):
        notes.append("inside shard_map the counts are those of one rank")
    if any(step.name in ("sharding_constraint", "reshard") and not step.place.axes for step in steps.listed):
        notes.append(
            "arrays are sharded outside shard_map: the counts there are those of all ranks together, without the "
            "collectives that the compiler adds"
        )
    return notes
