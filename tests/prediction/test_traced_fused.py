"""Kernels that a compiler makes of a traced program: what merges, what does not, and what the merged kernels move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.timeline import BACKWARD, OPTIMIZER
from ridgeline.core.trace import GRADIENT, HOLDS, INPUT, LIBRARY, PARAMETER, REDUCTION, STATE, Trace
from ridgeline.machines.defaults import defaults
from ridgeline.prediction.traced import ProgramPrediction, predict_trace
from ridgeline.prediction.traced.fusion import groups, traffic
from ridgeline.programs.trace.sorts import sort_of
from traces import Builder

H200 = rl.machine("h200-sxm")
N = 4096
SIZE = 2.0 * N * N  # bytes of a bf16 tensor of N x N


def names(trace: Trace) -> list[tuple[str, ...]]:
    """The operators of each kernel."""
    listed = groups(trace, H200)
    return [
        tuple(
            dict.fromkeys(
                trace.ops[op].site.call.name.removeprefix("aten::")
                for node in group.nodes
                for op in (*node.inlined, node.op)
            )
        )
        for group in listed
    ]


def fused(trace: Trace) -> ProgramPrediction:
    return predict_trace(trace, H200, mode="fused")


def moved(trace: Trace) -> float:
    return sum(sum(row.reads.values()) + sum(row.writes.values()) for row in traffic(trace, groups(trace, H200)))


def elementwise(*calls: tuple[str, list[str], str], outputs: tuple[str, ...] = ()) -> Builder:
    """Calls on N x N tensors: operator, what it reads, what it writes. Inputs start with `i`; `outputs` outlive the run."""
    b = Builder()
    for name in dict.fromkeys(name for _, reads, write in calls for name in (*reads, write)):
        b.buffer(name, (N, N), INPUT if name.startswith("i") or name in outputs else "temporary")
    for name, reads, write in calls:
        b.call(f"aten::{name}", reads, [write])
    return b


def test_a_chain_becomes_one_kernel_that_reads_and_writes_once() -> None:
    trace = elementwise(
        ("relu", ["i"], "a"), ("silu", ["a"], "b"), ("mul", ["b", "i2"], "out"), outputs=("out",)
    ).trace()
    assert names(trace) == [("relu", "silu", "mul")]
    assert moved(trace) == 3 * SIZE  # i and i2 read, out written
    program = fused(trace)
    assert program.kernels == 1
    assert program.bytes == 3 * SIZE
    assert program.flops == trace.flops
    assert program.ops[0].fused == ("aten::relu", "aten::silu", "aten::mul")


def test_a_result_that_a_library_call_reads_is_written() -> None:
    b = elementwise(("relu", ["i"], "a"), ("silu", ["a"], "b"))
    b.buffer("w", (N, N), PARAMETER)
    b.buffer("c", (N, N))
    b.buffer("out", (N, N), INPUT)
    b.call("aten::mm", ["a", "w"], ["c"], sort=LIBRARY)
    b.call("aten::add", ["c", "b"], ["out"])
    trace = b.trace()
    assert names(trace) == [("relu",), ("mm",), ("silu", "add")]  # silu is computed where it is used
    first, product, last = traffic(trace, groups(trace, H200))
    assert list(first.writes.values()) == [SIZE]
    assert sum(last.reads.values()) == 2 * SIZE  # the product, and what silu is computed from
    assert sum(product.reads.values()) == 2 * SIZE


def test_calls_do_not_merge_around_one_that_depends_on_the_first() -> None:
    """add reads relu's result and the product of it: merged with relu it would have to run before and after the product."""
    b = elementwise(("relu", ["i"], "a"))
    b.buffer("w", (N, N), PARAMETER)
    b.buffer("c", (N, N))
    b.buffer("out", (N, N), INPUT)
    b.call("aten::mm", ["a", "w"], ["c"], sort=LIBRARY)
    b.call("aten::add", ["a", "c"], ["out"])
    assert names(b.trace()) == [("relu",), ("mm",), ("add",)]


def test_two_kernels_that_meet_become_one() -> None:
    trace = elementwise(
        ("relu", ["i1"], "a"), ("silu", ["i2"], "b"), ("add", ["a", "b"], "out"), outputs=("out",)
    ).trace()
    assert names(trace) == [("relu", "silu", "add")]
    assert moved(trace) == 3 * SIZE


def test_calls_that_read_the_same_buffer_merge() -> None:
    trace = elementwise(("relu", ["i"], "o1"), ("silu", ["i"], "o2"), outputs=("o1", "o2")).trace()
    assert names(trace) == [("relu", "silu")]
    assert moved(trace) == 3 * SIZE


def test_copies_into_another_order_do_not_merge_for_what_they_read() -> None:
    trace = elementwise(("clone", ["i"], "o1"), ("clone", ["i"], "o2"), outputs=("o1", "o2")).trace()
    assert names(trace) == [("clone",), ("clone",)]
    chained = elementwise(("relu", ["i"], "a"), ("clone", ["a"], "out"), outputs=("out",)).trace()
    assert names(chained) == [("relu", "clone")]


def norm(rows: int, cols: int) -> Builder:
    """x + r, its norm, and a function of it: r, x and the weights are read, the sum and the result are written."""
    b = Builder()
    for name in ("ix", "ir"):
        b.buffer(name, (rows, cols), INPUT)
    b.buffer("weight", (cols,), PARAMETER)
    b.buffer("bias", (cols,), PARAMETER)
    b.buffer("sum", (rows, cols))
    b.buffer("normed", (rows, cols))
    b.buffer("mean", (rows, 1), dtype="fp32")
    b.buffer("rstd", (rows, 1), dtype="fp32")
    b.buffer("out", (rows, cols), INPUT)
    b.call("aten::add", ["ix", "ir"], ["sum"])
    tensors = (b.tensor("weight"), b.tensor("bias"))
    b.call(
        "aten::native_layer_norm",
        ["sum"],
        ["normed", "mean", "rstd"],
        sort=REDUCTION,
        further=((cols,), *tensors, 1e-5),
    )
    b.reads[-1] = ("sum", "weight", "bias")
    b.call("aten::relu", ["normed"], ["out"])
    return b


def test_a_norm_of_rows_merges_with_what_is_before_and_after_it() -> None:
    b = norm(16384, 1024)
    trace = b.trace()
    assert names(trace) == [("add", "native_layer_norm", "relu")]
    tensor = 2.0 * 16384 * 1024
    assert moved(trace) == 3 * tensor + 2 * 2 * 1024  # two read, one written, weights and biases


def test_a_sum_over_few_long_columns_ends_its_kernel() -> None:
    b = elementwise(("relu", ["i"], "a"))
    b.buffer("columns", (1, N), dtype="fp32")
    b.buffer("out", (N, N), INPUT)
    b.call("aten::sum", ["a"], ["columns"], sort=REDUCTION, further=((0,), True))
    b.call("aten::mul", ["a", "columns"], ["out"])
    trace = b.trace()
    assert names(trace) == [("relu", "sum"), ("relu", "mul")]
    assert moved(trace) == 2 * SIZE + SIZE + 2 * 4.0 * N  # the input is read twice, the sums are written and read


def test_a_backward_kernel_computes_cheap_intermediates_again() -> None:
    """What relu and silu keep for the backward pass follows from their one input, which is there anyway."""
    b = elementwise(("silu", ["i"], "a"), ("exp", ["a"], "b"), ("mul", ["b", "a"], "out"), outputs=("out",))
    b.buffer("dy", (N, N), INPUT)
    b.buffer("dx", (N, N), GRADIENT)
    b.buffer("t", (N, N))
    b.call("aten::mul", ["dy", "b"], ["t"], phase=BACKWARD)
    b.call("aten::mul", ["t", "a"], ["dx"], phase=BACKWARD)
    trace = b.trace()
    forward, backward = traffic(trace, groups(trace, H200))
    assert sum(forward.reads.values()) == SIZE
    assert sum(forward.writes.values()) == SIZE  # out alone
    assert sum(backward.reads.values()) == 2 * SIZE  # dy and i
    assert sum(backward.writes.values()) == SIZE


def test_the_passes_of_a_foreach_optimizer_become_one() -> None:
    b = Builder("fp32")
    lists = {"param": PARAMETER, "grad": GRADIENT, "state": STATE}
    for place in range(30):
        for name, holds in lists.items():
            b.buffer(f"{name}{place}", (256, 256), holds)
    params, grads, states = ([f"{name}{place}" for place in range(30)] for name in lists)

    def call(name: str, reads: list[str], writes: list[str], *further: object) -> None:
        tensors = tuple(b.tensor(item) for item in writes)
        b.call(name, [], [], phase=OPTIMIZER, further=(tensors, *further))
        b.reads[-1], b.writes[-1] = tuple(reads), tuple(writes)

    call("aten::_foreach_mul_", states, states, 0.9)
    call("aten::_foreach_add_", [*states, *grads], states, tuple(b.tensor(item) for item in grads), 1.0)
    call("aten::_foreach_add_", [*params, *states], params, tuple(b.tensor(item) for item in states), -0.1)
    trace = b.trace()
    assert names(trace) == [("_foreach_mul_", "_foreach_add_")]
    tensors = 30 * 256 * 256 * 4.0
    assert moved(trace) == 5 * tensors  # parameters, gradients and states read, parameters and states written
    assert fused(trace).kernels == 2  # 15 tensors each


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["relu", "silu", "exp"]), st.integers(0, 5), st.booleans()), min_size=1, max_size=12
    )
)
def test_merging_never_adds_kernels_nor_memory(calls: list[tuple[str, int, bool]]) -> None:
    """Random programs: each call reads an earlier result; some results are multiplied by a matrix in between."""
    b = Builder()
    b.buffer("x0", (512, 512), INPUT)
    b.buffer("w", (512, 512), PARAMETER)
    for place, (name, back, product) in enumerate(calls):
        source = f"x{max(place - back, 0)}"
        b.buffer(f"h{place}", (512, 512))
        b.buffer(f"x{place + 1}", (512, 512), INPUT if place == len(calls) - 1 else "temporary")
        if product:
            b.call("aten::mm", [source, "w"], [f"h{place}"], sort=LIBRARY)
            source = f"h{place}"
        b.call(f"aten::{name}", [source], [f"x{place + 1}"])
    trace = b.trace()
    eager, merged = predict_trace(trace, H200), fused(trace)
    assert merged.kernels <= eager.kernels
    assert merged.peak_memory <= eager.peak_memory
    library = [item for item in eager.ops if item.op == "aten::mm"]
    assert sum(item.count for item in merged.ops if item.op == "aten::mm") == sum(item.count for item in library)
    order = groups(trace, H200)
    made: dict[int, int] = {}
    for group in order:  # a result is read by no kernel that a schedule has to put before the one that makes it
        for node in group.nodes:
            made |= {buffer: group.place for buffer, _ in node.writes}
    for group in order:
        for node in group.nodes:
            for buffer, _ in node.reads:
                producer = made.get(buffer)
                assert producer is None or producer == group.place or not order[producer].before >> group.place & 1


def test_a_padded_product_is_faster_than_an_odd_one() -> None:
    b = Builder()
    b.buffer("x", (8192, 768), INPUT)
    b.buffer("w", (768, 50257), PARAMETER)
    b.buffer("y", (8192, 50257), INPUT)
    b.call("aten::mm", ["x", "w"], ["y"], sort=LIBRARY)
    trace = b.trace()
    even = rl.predict(rl.ops.gemm(8192, 50264, 768), H200)
    program = fused(trace)
    assert program.time / program.slowdown == pytest.approx(float(even.time), rel=0.02)
    assert program.time < predict_trace(trace, H200).time


def test_a_residual_is_read_in_parts_until_it_depends_on_many() -> None:
    """x + a + b + c + d with a product of every sum in between: each sum is computed again from up to four buffers."""
    b = Builder()
    b.buffer("x", (N, N), INPUT)
    b.buffer("w", (N, N), PARAMETER)
    last = "x"
    for place in range(6):
        b.buffer(f"h{place}", (N, N))
        b.buffer(f"p{place}", (N, N))
        b.buffer(f"s{place}", (N, N), INPUT if place == 5 else "temporary")
        b.call("aten::relu", [last], [f"h{place}"])
        b.call("aten::mm", [f"h{place}", "w"], [f"p{place}"], sort=LIBRARY)
        b.call("aten::add", [last, f"p{place}"], [f"s{place}"])
        last = f"s{place}"
    trace = b.trace()
    listed = groups(trace, H200)
    reads = [len(row.reads) for group, row in zip(listed, traffic(trace, listed), strict=True) if not group.library]
    assert reads[:4] == [1, 2, 3, 4]
    assert max(reads) == 5  # the sum that is written depends on five; from then on it starts again
    assert 2 in reads[5:]


def test_a_compute_bound_program_slows_down_to_the_power_limit() -> None:
    """A train of large products draws more than 700 W at the rate of a single one; a train of copies does not."""
    b = Builder()
    for name in ("x", "w", "y"):
        b.buffer(name, (8192, 8192), INPUT)
    b.call("aten::mm", ["x", "w"], ["y"], sort=LIBRARY, times=20.0)
    program = predict_trace(b.trace(), H200)
    joules = 20 * 2 * 8192.0**3 * (H200.energy["flop.tensor.bf16"].value() or 0.0)
    power = joules / program.time + (H200.energy["static"].value() or 0.0)
    assert program.slowdown > 1.02
    assert power < 1.1 * 700
    assert any("power-limited" in note for note in program.notes)
    assert predict_trace(elementwise(("relu", ["i"], "o"), outputs=("o",)).trace(), H200).slowdown == 1.0
    assert 1.0 < predict_trace(b.trace(), "h100-pcie").slowdown < 1.3  # the energies of an H200, at a lower clock
    assert predict_trace(b.trace(), "a100-sxm-80gb").slowdown == 1.0  # no energy figures: nothing is claimed


def test_the_backward_pass_holds_what_it_computes_activations_from() -> None:
    b = Builder()
    for name in ("x", "dy", "dx"):
        b.buffer(name, (N, N), INPUT)
    b.buffer("w", (N, N), PARAMETER)
    for name in ("h", "e", "y", "t"):
        b.buffer(name, (N, N))
    b.call("aten::mm", ["x", "w"], ["h"], sort=LIBRARY)
    b.call("aten::exp", ["h"], ["e"])
    b.call("aten::mm", ["x", "w"], ["y"], sort=LIBRARY)
    b.call("aten::mm", ["dy", "w"], ["t"], sort=LIBRARY, phase=BACKWARD)
    b.call("aten::mul", ["t", "e"], ["dx"], phase=BACKWARD)
    trace = b.trace()
    assert trace.buffers.dies[b.names["h"]] == 2  # eager: freed before the second product
    last = dict(zip(HOLDS, fused(trace).memory.curve[-1].tolist(), strict=True))
    assert last == {
        "parameter": SIZE,
        "input": 3 * SIZE,
        "activation": SIZE,
        "gradient": 0,
        "state": 0,
        "temporary": SIZE,
    }


def test_a_tensor_that_only_gives_its_shape_is_not_computed_again() -> None:
    b = Builder()
    for name in ("x", "y"):
        b.buffer(name, (N, N), INPUT)
    b.buffer("a", (N, N))
    b.buffer("number", (1, 1))
    b.call("aten::relu", ["x"], ["a"])
    b.call("aten::new_ones", ["a"], ["number"], further=((1, 1),))
    b.call("aten::mul", ["x", "number"], ["y"])
    trace = b.trace()
    reads = (trace.reads[0], tuple((buffer, 0.0) for buffer, _ in trace.reads[1]), trace.reads[2])
    assert fused(replace(trace, reads=reads)).flops == N * N  # those of the product


# -- the host of compiled programs ---------------------------------------------------------------------------------------


def step_of(parameters: int, reads: int = 0) -> Trace:
    """A product and a kernel of the optimizer, with so many small parameters; Python reads a number so many times before."""
    b = Builder()
    b.buffer("ix", (N, N), INPUT)
    b.buffer("out", (N, N), INPUT)
    for place in range(parameters):
        b.buffer(f"g{place}", (8, 8), GRADIENT)
    for _ in range(reads):
        b.call("aten::_local_scalar_dense", ["ix"], [])
    b.call("aten::mm", ["ix", "ix"], ["out"], sort=LIBRARY)
    b.call("aten::mul", ["out", "ix"], ["out"], phase=OPTIMIZER)
    return b.trace()


def test_parameters_of_a_compiled_training_step_cost_host_time() -> None:
    each, kinds = defaults("host_call")["eager_call"], defaults("call_factor")
    none, some = (fused(step_of(count)) for count in (0, 30))
    assert some.kernels == none.kernels
    assert some.host - none.host == pytest.approx(30 * kinds["compiled_parameter"] * each)
    changed = np.flatnonzero(some.queue.cost - none.queue.cost)
    assert len(changed) == 2  # before the first kernel, and before the optimizer


def test_launches_of_libraries_cost_more_than_generated_kernels_and_the_graph_is_called_once() -> None:
    each, kinds = defaults("host_call")["eager_call"], defaults("call_factor")
    for parameters, share in ((0, 4 / 50), (6, 10 / 50), (60, 1.0)):  # fewer are checked faster
        b = Builder()
        for name in ("ix", "iy", "out"):
            b.buffer(name, (N, N), INPUT)
        for place in range(parameters):
            b.buffer(f"p{place}", (N,), PARAMETER)
        b.call("aten::mm", ["ix", "iy"], ["out"], sort=LIBRARY)
        b.call("aten::mul", ["out", "ix"], ["out"])
        made = fused(b.trace())
        parts = share * kinds["compiled_call"], kinds["compiled_product"], kinds["compiled_kernel"]
        assert made.host == pytest.approx(sum(parts) * each)
        assert made.queue.cost[0] == pytest.approx(sum(parts[:2]) * each)


def test_every_number_that_python_reads_breaks_the_graph() -> None:
    broken = defaults("call_factor")["graph_break"] * defaults("host_call")["eager_call"]
    none, some = (fused(step_of(3, reads)) for reads in (0, 4))
    assert some.host - none.host == pytest.approx(4 * broken)
    assert some.kernels == none.kernels


@pytest.mark.parametrize(
    "name", ["_softmax", "_log_softmax_backward_data", "native_layer_norm", "sum", "nll_loss_forward"]
)
def test_compilers_write_kernels_of_their_own_for_rows_and_sums(name: str) -> None:
    """By the rule that counts the operator, wherever that lives."""
    assert sort_of(f"aten::{name}") == REDUCTION
