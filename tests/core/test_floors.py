"""The floor by the ceilings in use, and the one that no kernel beats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.bound import bound
from ridgeline.core.figure import KINDS, Figure, Level
from ridgeline.core.machine import Machine
from ridgeline.core.work import Work
from ridgeline.programs import ops
from strategies import calls, law, machines


@given(call=calls(largest=4096), machine=machines(), data=st.data())
@law(100)
def test_the_stated_floor_is_never_above_the_floor(call: Any, machine: Machine, data: Any) -> None:
    """Whatever was measured: a ceiling above the stated one lowers it, one below leaves it."""
    shares = st.none() | st.floats(0.3, 1.5)

    def measured(figure: Figure) -> Figure:
        share = data.draw(shares)
        return figure if share is None else replace(figure, measured=figure.stated * share)

    known = replace(
        machine,
        peaks={name: measured(figure) for name, figure in machine.peaks.items()},
        levels=tuple(replace(level, bandwidth=measured(level.bandwidth)) for level in machine.levels),
    )
    work = call[0](**call[1])
    stated = bound(work, machine).floor
    for ceilings in (None, "stated"):
        item = bound(work, known, ceilings)
        assert item.stated_floor <= item.floor * (1 + 1e-12)
        assert item.stated_floor <= stated * (1 + 1e-12)
    assert bound(work, known, "stated").stated_floor == pytest.approx(stated)


def test_a_measured_ceiling_that_nobody_stated_is_raised_by_its_uncertainty() -> None:
    machine = rl.machine("h200-sxm")
    peaks = {"vector.fp32": Figure("flop/s", measured=1e12, spread=0.25), "tensor.bf16": Figure("flop/s", derived=1e12)}
    alone = replace(machine, peaks=peaks)
    item = bound(ops.gemm(4096, 4096, 4096, dtype="fp32"), replace(alone, peaks={"vector.fp32": peaks["vector.fp32"]}))
    assert item.floor == pytest.approx(2 * 4096**3 / 1e12)
    assert item.stated_floor == pytest.approx(item.floor / 1.25)
    derived = bound(ops.gemm(4096, 4096, 4096), alone)
    assert derived.stated_floor == derived.floor


def test_the_stated_floor_of_a_product_on_the_h200() -> None:
    """8192^3 in bf16 at the 989.4 TFLOP/s of the data sheet takes 1.111 ms, whichever ceilings are asked for."""
    for ceilings in (None, *KINDS):
        item = bound(ops.gemm(np.array([8192.0, 8192.0]), 8192, 8192), rl.machine("h200-sxm"), ceilings)
        np.testing.assert_allclose(item.stated_floor, 2 * 8192**3 / 989.4e12, rtol=1e-3)


def test_bytes_over_a_link_take_its_bandwidth() -> None:
    """64 MB to the device over PCIe: size over the rate of one direction, whatever the memory could do."""
    machine = rl.machine("h200-sxm")
    work = rl.Work(moves={("pcie", "data", "read"): 64e6}, waits={"launch": 1.0})
    made, rate = bound(work, machine), machine.link("pcie").per_direction.value()
    assert rate is not None
    assert made.floor == pytest.approx(64e6 / rate)
    assert (made.limiter, made.bound) == ("pcie", "memory")
    assert made.notes == ()


def test_a_fill_is_no_slower_than_the_copy_that_writes_as_much() -> None:
    """The floor of a fill took plain stores and that of a copy streaming ones: 400 MB had a floor of 8.1 ms, copied from elsewhere 7.8 ms."""

    def measured(value: float) -> Figure:
        return Figure("B/s", measured=value, measurement="a test", source="a test")

    mixes = {"read": 67e9, "copy": 103e9, "write": 50e9, "write_nt": 90e9}
    level = Level(
        "memory",
        measured(67e9),
        Figure("B", stated=24e9, source="a test"),
        mixes={name: measured(rate) for name, rate in mixes.items()},
    )
    machine = Machine("one", kind="cpu", levels=(level,))
    fill = rl.predict(rl.ops.fill(n=1e8, dtype="fp32"), machine).floor
    assert fill == pytest.approx(4e8 / 90e9)
    assert fill < rl.predict(rl.ops.copy(n=1e8, dtype="fp32"), machine).floor


def test_what_a_cpu_updates_in_place_is_read_once() -> None:
    """A store reads its line first, which nominal bytes leave out: AdamW took a Xeon 0.90 ms, two thirds of its floor of 1.38 ms."""

    def measured(value: float) -> Figure:
        return Figure("B/s", measured=value, measurement="a test", source="a test")

    mixes = {"read": 24e9, "copy": 22e9, "write": 20e9}
    level = Level(
        "memory",
        measured(24e9),
        Figure("B", stated=24e9, source="a test"),
        mixes={name: measured(rate) for name, rate in mixes.items()},
    )
    machine = Machine("one", kind="cpu", levels=(level,), peaks={"vector.fp32": replace(measured(4e11), unit="flop/s")})
    elements = np.array([1e6, 1e8])

    def floor(work: Work) -> Any:
        return np.asarray(rl.predict(work, machine).floor)

    # scal writes every line that it reads, as a fill does; axpy reads one array more, as a copy does
    assert floor(rl.ops.scal(n=elements, dtype="fp32")) == pytest.approx(elements * 4 / 20e9)
    assert floor(rl.ops.axpy(n=elements, dtype="fp32")) == pytest.approx(elements * 8 / 22e9)
    # of seven passes of AdamW three are such reads: 16 bytes, three quarters of them written, between a copy and a fill
    per_byte = (1 / 22e9 + 1 / 20e9) / 2
    assert floor(rl.ops.adamw(n=elements, dtype="fp32")) == pytest.approx(elements * 16 * per_byte)
    # and counting the reads of a triad's stores changes nothing
    plain, counted = (rl.ops.stream_triad(n=elements, dtype="fp32", write_allocate=each) for each in (False, True))
    assert floor(counted) == pytest.approx(floor(plain))
    gpu = rl.predict(rl.ops.scal(n=1e8, dtype="fp32"), "h200-sxm")
    assert float(gpu.floor) > 8e8 / 4.8e12
