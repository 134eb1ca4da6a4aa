"""Programs that cannot be traced: one message that names the user's line and says what to do."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ridgeline.core.errors import InputError
from ridgeline.programs.trace.jax_trace import trace_jax

jax = pytest.importorskip("jax")
jnp = jax.numpy


def array(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def mismatched(x: Any) -> Any:
    return x @ x


def depends_on_values(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


def asks_for_values(x: Any) -> Any:
    return np.asarray(x) + 1


def converts(x: Any) -> Any:
    return jnp.zeros(int(x.sum()))


def raises(x: Any) -> Any:
    raise RuntimeError(f"no weights for {x.shape}")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (mismatched, "contracting dimensions"),
        (depends_on_values, "jax.lax.cond"),
        (asks_for_values, "values of an array"),
        (converts, "values of an array"),
        (raises, "no weights for (3, 4)"),
        (jax.jit(mismatched), "contracting dimensions"),
        (jax.grad(lambda x: mismatched(x).sum()), "contracting dimensions"),
    ],
)
def test_failures_name_the_users_line(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(InputError) as failed:
        trace_jax(function, (array(3, 4),))
    message = str(failed.value)
    assert says in message
    assert re.match(r"[\w/]*test_trace_jax_errors\.py:\d+: ", message)
    assert "\n" not in message


def test_the_line_is_the_innermost_one_of_the_user() -> None:
    with pytest.raises(InputError) as failed:
        trace_jax(raises, (array(3, 4),))
    line = raises.__code__.co_firstlineno + 1
    assert f"test_trace_jax_errors.py:{line}: " in str(failed.value)


def test_arguments_that_are_no_arrays_are_refused_by_their_place() -> None:
    with pytest.raises(InputError, match=r"argument .*'mode'.* of type str.*functools.partial"):
        trace_jax(lambda tree: tree["x"], ({"x": array(3), "mode": "train"},))
    bound = functools.partial(lambda mode, x: x + len(mode), "train")
    assert trace_jax(bound, (array(3),)).flops == 3


def test_missing_arguments_ask_for_examples() -> None:
    with pytest.raises(InputError, match="example arguments"):
        trace_jax(lambda x, y: x + y, (array(3),))


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be called"):
        trace_jax(3, ())  # type: ignore[arg-type]


def test_arrays_of_numpy_and_jax_and_numbers_are_taken_by_their_shapes() -> None:
    traces = [
        trace_jax(lambda x, y: jnp.sin(x) * y, (x, 2.0))
        for x in (np.zeros((4, 4)), np.zeros((4, 4), np.float32), jnp.zeros((4, 4)), array(4, 4))
    ]
    assert {(trace.flops, trace.bytes) for trace in traces} == {(traces[0].flops, traces[0].bytes)}
    assert traces[0].buffers.size[0] == 64


def test_nothing_is_computed_and_nothing_is_allocated() -> None:
    """Arrays of a petabyte are traced as any other."""
    trace = trace_jax(lambda x: jnp.sin(x).sum(), (array(2**24, 2**24),))
    assert trace.buffers.size[0] == 4 * 2.0**48


def test_backward_differentiates_the_sum_by_all_real_arguments() -> None:
    def apply(w: Any, x: Any, ids: Any) -> Any:
        return (x @ w)[ids]

    args = (array(8, 8), array(4, 8), array(3, dtype=jnp.int32))
    products = [op for op in trace_jax(apply, args, backward=True).ops if op.site.call.name == "aten::mm"]
    assert [op.site.phase for op in products] == ["forward", "backward", "backward"]
    with pytest.raises(InputError, match="without backward"):
        trace_jax(lambda ids: ids + 1, (array(3, dtype=jnp.int32),), backward=True)
