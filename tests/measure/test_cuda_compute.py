"""Arithmetic, matrix products and launches of a GPU without a GPU; torch multiplies on the CPU."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fake_gpu import FakeGpu

from ridgeline.core.errors import RidgelineError
from ridgeline.measure.cuda import arithmetic, latency, products
from ridgeline.measure.cuda import device as devices
from ridgeline.measure.cuda.device import Library


@pytest.mark.usefixtures("short")
def test_chains_count_two_flops_and_are_followed(gpu: FakeGpu) -> None:
    probes = arithmetic.arithmetic(gpu, quick=True)
    assert [probe.target for probe in probes] == ["vector.fp64", "vector.fp32", "vector.fp16", "special.fp32", "special.fp32"]  # fmt: skip
    for probe in probes:
        assert probe.check is not None
        probe.check()
        chain = probe.call
        assert isinstance(chain, arithmetic.Chain)
        per = {"vector.fp64": 2, "vector.fp32": 2, "vector.fp16": 4, "special.fp32": 1}[probe.target]
        assert probe.work.flops == per * chain.grid * chain.threads * chain.chains * 64
        assert probe.settings["sm_clock_seen"] == pytest.approx(2e9)


@pytest.mark.usefixtures("short")
def test_wrong_chains_are_refused(gpu: FakeGpu) -> None:
    probes = arithmetic.arithmetic(gpu, quick=True)
    gpu.run_multiply_adds = lambda grid, block, numbers, seeds, span, factor, steps, out, cycles: gpu.view(  # type: ignore[method-assign]
        out, np.uint8, 512
    ).fill(1)
    assert probes[1].check is not None
    with pytest.raises(RidgelineError, match="fma fp32"):
        probes[1].check()


@pytest.mark.needs_torch
@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
@pytest.mark.parametrize("dtype", ["fp64", "tf32", "bf16", "fp16", "int8"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_products_are_compared_with_fp64(library: Library, dtype: str, layout: str) -> None:
    product = products.Product(library, dtype, 48, 32, 64, layout)
    assert product(2) > 0
    product.check()
    assert product.work.flops == 2 * 48 * 32 * 64
    stored = {"fp64": 8, "tf32": 4, "bf16": 2, "fp16": 2, "int8": 1}[dtype]
    written = 4 if dtype == "int8" else stored
    assert product.work.bytes == stored * (48 * 64 + 64 * 32) + written * 48 * 32


@pytest.mark.needs_torch
def test_a_wrong_product_is_refused(library: Library) -> None:
    product = products.Product(library, "bf16", 48, 32, 64)
    right = product.call
    product.call = lambda: right() * 1.1
    with pytest.raises(RidgelineError, match="gemm bf16"):
        product.check()


@pytest.mark.needs_torch
def test_a_replay_is_judged_by_what_it_leaves(library: Library) -> None:
    product = products.Product(library, "bf16", 48, 32, 64)
    product.check(library.record([product.call]))
    with pytest.raises(RidgelineError, match="gemm bf16"):
        product.check(lambda: None)


def test_without_triton_the_library_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "package", lambda name: None)
    assert devices.triton_module("matmul") is None


@pytest.mark.needs_torch
@pytest.mark.needs_machine
def test_the_best_shape_is_kept_with_the_sweep(library: Library) -> None:
    product, table = products.best_product(library, "bf16", 2, quick=False, scale=64)
    assert len(table) == len(products.shapes("bf16", 2, False, 64)) == 27
    best = sorted(table, key=lambda row: -row["rate"])[: products.FINALISTS]
    shape = {"m": product.m, "n": product.n, "k": product.k, "layout": product.layout}
    assert shape in [{key: row[key] for key in shape} for row in best]
    assert json.loads(json.dumps(products.product_settings(product, table)))["sweep"] == table


def test_whole_waves_are_among_the_shapes() -> None:
    """132 SMs with tiles of 128 x 256: 8448 x 8192 makes 66 x 32 tiles, sixteen waves exactly."""
    assert (8448, 8192, 8192, "nt") in products.shapes("bf16", 132, quick=False)
    assert {layout for *_, layout in products.shapes("fp8", 132, quick=False)} == {"nt"}


@pytest.mark.needs_torch
def test_the_size_sweep_says_when_it_is_cold(library: Library) -> None:
    small, large = products.by_size(library, "bf16", l2=200_000, quick=False, largest=256)
    assert small.settings["state"] == "cold"
    assert large.settings["state"] == "cold"
    assert small.prepare is not None
    small.prepare()
    assert small.call(3) is not None
    assert small.check is not None
    small.check()


# -- launches --------------------------------------------------------------------------------------------------


def test_launches_are_told_apart(gpu: FakeGpu) -> None:
    probes = latency.launches(gpu, gpu)
    assert [probe.settings["variant"] for probe in probes] == ["queued", "graph", "host", "graph launch", "synchronous"]
    for probe in probes:
        if probe.prepare:
            probe.prepare()
        assert probe.call(3) == pytest.approx(3 * gpu.launch_time, rel=1e-3)  # type: ignore[comparison-overlap]


@pytest.mark.needs_torch
def test_the_dispatcher_is_checked(library: Library) -> None:
    (probe,) = latency.dispatches(library)
    probe.call(2)
    assert probe.check is not None
    probe.check()
    assert probe.settings["variant"] == "dispatcher"
