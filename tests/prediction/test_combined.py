"""Combined work keeps the families of its parts: the times of sums, repeats, fusions, batches and scaled work."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.errors import InputError
from ridgeline.core.work import Program, Step, Work
from ridgeline.prediction.predict import Prediction, predict
from ridgeline.programs import ops
from ridgeline.programs.ops import OPS
from strategies import COLLECTIVES, calls, law

NAMES = tuple(name for name in sorted(OPS) if name not in COLLECTIVES)
MACHINES = ("h200-sxm", "a100-sxm-80gb", "b200-sxm", "mi300x", "xeon-8480plus")
CLOSE = 1e-9
real = cache(rl.machine)
works = calls(names=NAMES, largest=2048, without=("tile_level",))


def made(call: Any, machine: str) -> Work:
    """The work of a call, where the machine computes in its format."""
    work: Work = call[0](**call[1])
    try:
        predict(work, real(machine))
    except InputError:
        assume(False)
    return work


def ends(prediction: Prediction) -> list[float]:
    return [float(np.asarray(getattr(prediction, name))) for name in ("time", "floor", "low", "high", "flops", "bytes")]


@given(call=works, times=st.integers(1, 100), machine=st.sampled_from(MACHINES))
@law(40)
def test_repeated_work_takes_so_many_times_as_long(call: Any, times: int, machine: str) -> None:
    work = made(call, machine)
    once, again = predict(work, real(machine)), predict(work.repeat(times), real(machine))
    assert ends(again) == pytest.approx([times * end for end in ends(once)], rel=CLOSE)
    assert again.bound == once.bound
    assert sum(float(item.seconds) for item in again.items) == pytest.approx(float(again.time), rel=CLOSE)
    assert ends(predict(work + work, real(machine))) == pytest.approx(ends(predict(work.repeat(2), real(machine))))


@given(one=works, two=works, times=st.integers(1, 9), machine=st.sampled_from(MACHINES))
@law(40)
def test_a_sum_takes_as_long_as_its_parts(one: Any, two: Any, times: int, machine: str) -> None:
    """As a program of the parts does, whose total is the sum again."""
    first, then = made(one, machine), made(two, machine)
    together = predict(first + then.repeat(times), real(machine))
    parts = predict(first, real(machine)), predict(then, real(machine))
    for name in ("time", "floor", "flops", "bytes"):
        values = [float(np.asarray(getattr(part, name))) for part in parts]
        assert float(np.asarray(getattr(together, name))) == pytest.approx(values[0] + times * values[1], rel=CLOSE)
    program = Program((Step("first", first), Step("then", then, times)))
    assert ends(predict(program, real(machine))) == pytest.approx(ends(together), rel=CLOSE)
    assert ends(predict(program.total(), real(machine))) == pytest.approx(ends(together), rel=CLOSE)
    assert together.low <= together.time <= together.high


@given(call=works, machine=st.sampled_from(MACHINES), after=st.sampled_from(["relu", "gelu", "copy"]), data=st.data())
@law(40)
def test_a_fused_kernel_takes_between_the_longer_part_and_both(call: Any, machine: str, after: str, data: Any) -> None:
    first = made(call, machine)
    written = sorted({tensor for _, tensor, way in first.moves if way == "write"})
    assume(written)  # what writes nothing, or does not say what, has nothing to fuse through
    through = data.draw(st.sampled_from(written))
    elements = float(first.tensor_sizes()[through]) / 2
    assume(elements >= 1 and elements.is_integer())
    then = ops.find(after)(n=elements, dtype="bf16")
    fused = predict(first.fuse(then, through, "x"), real(machine))
    alone = [predict(work, real(machine)) for work in (first, then)]
    assert fused.time <= sum(part.time for part in alone) * (1 + CLOSE)
    if fused.expected[0].kernels:
        for part in alone:  # all of its time, less what dropping the tensor takes the floor of both below that of one
            assert fused.time >= (part.time - max(part.floor - fused.floor, 0.0)) * (1 - CLOSE)
    assert fused.floor <= fused.time
    assert fused.low <= fused.time * (1 + CLOSE)
    assert fused.time <= fused.high * (1 + CLOSE)
    assert sum(float(np.asarray(item.seconds)) for item in fused.items) == pytest.approx(float(fused.time), rel=1e-6)


def test_a_product_with_its_activation_takes_the_time_of_the_product_and_a_little() -> None:
    """What the product writes is hidden behind its arithmetic, so fusing saves most of the activation."""
    machine = real("h200-sxm")
    product, activation = ops.gemm(4096, 4096, 4096), ops.gelu(4096 * 4096)
    times = [predict(work, machine).time for work in (product, activation, product.fuse(activation, "C", "x"))]
    assert times[0] < times[2] < times[0] + 0.4 * times[1]
    assert predict(product + activation, machine).time == times[0] + times[1]


@given(
    call=works,
    machine=st.sampled_from(MACHINES),
    traffic=st.floats(0.01, 10),
    arithmetic=st.floats(0.01, 10),
    more=st.floats(1, 4),
)
@law(40)
def test_scaled_work_never_takes_less_for_more(
    call: Any, machine: str, traffic: float, arithmetic: float, more: float
) -> None:
    work = made(call, machine)
    before = predict(work.scaled(traffic, arithmetic), real(machine))
    for after in (work.scaled(traffic * more, arithmetic), work.scaled(traffic, arithmetic * more)):
        assert predict(after, real(machine)).time >= before.time * (1 - CLOSE)
    assert before.time >= before.floor
    assert predict(work.scaled(1.0, 1.0), real(machine)).time == pytest.approx(predict(work, real(machine)).time)


@given(call=works, machine=st.sampled_from(MACHINES), size=st.integers(1, 64))
@law(40)
def test_a_batch_takes_no_longer_than_one_by_one(call: Any, machine: str, size: int) -> None:
    work = made(call, machine)
    one, many = predict(work, real(machine)), predict(work.batch(size), real(machine))
    assert one.time * (1 - CLOSE) <= many.time <= size * one.time * (1 + CLOSE)


def test_arrays_combine() -> None:
    machine, rows = real("h200-sxm"), np.array([64.0, 4096.0])
    together = predict(ops.softmax(rows, 4096).repeat(np.array([2.0, 3.0])) + ops.gelu(rows * 4096), machine)
    fused = predict(ops.softmax(rows, 4096).fuse(ops.gelu(rows * 4096), "y", "x"), machine)
    for place, (count, n) in enumerate(zip((2, 3), rows.tolist(), strict=True)):
        softmax, gelu = ops.softmax(n, 4096), ops.gelu(n * 4096)
        alone = count * predict(softmax, machine).time + predict(gelu, machine).time
        assert together.time[place] == pytest.approx(alone)
        assert fused.time[place] == pytest.approx(predict(softmax.fuse(gelu, "y", "x"), machine).time)
        assert "softmax" in str(fused.expected[0].confidence[place])


def test_equal_kernels_err_together_in_any_order() -> None:
    """As `repeat` has it: 32 layers are no more certain because they were added one by one."""

    def product() -> Work:
        return ops.gemm(m=4096, n=4096, k=4096)

    def row() -> Work:
        return ops.softmax(rows=4096, cols=4096)

    layers = (product() + row()).repeat(32)
    added = Work()
    for _ in range(32):
        added = added + product() + row()
    assert ends(predict(added, real("h200-sxm"))) == pytest.approx(ends(predict(layers, real("h200-sxm"))))
    apart = predict(product() + row() + product(), real("h200-sxm"))
    assert ends(apart) == pytest.approx(ends(predict(row() + product() + product(), real("h200-sxm"))))


@pytest.mark.parametrize("machine", ["h200-sxm", "a100-sxm-80gb"])
def test_a_product_without_traffic_takes_its_arithmetic(machine: str) -> None:
    """Also where the bandwidth is measured by the share of bytes that is written, of which there are none."""
    whole = ops.gemm(m=4096, n=4096, k=4096)
    made = predict(whole.scaled(0.0, 1.0), real(machine))
    assert float(made.floor) == pytest.approx(float(predict(whole, real(machine)).bounds[0].compute_time))
    assert np.all(np.isfinite(predict(whole.scaled(np.array([0.0, 1.0]), 1.0), real(machine)).time))
