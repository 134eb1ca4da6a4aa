"""Arithmetic probes of a GPU: chains of multiply-adds on the vector units, and of special functions.

A multiply-add is two flops, a special function one. The chains run in registers, and NumPy repeats some of them step
by step for their answers. Data are standard normal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ...core.statistics import median
from ...core.work import work
from ..protocol import Probe, repeat
from .device import CHAINS, SPECIALS, TYPES, Device, u32, u64

SEEDS = 4096  # normal numbers the chains start from
CHECKED_THREADS = 64  # whose chains NumPy repeats
STEPS = 16384
NUMPY: dict[str, Any] = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}
# x = x a + b with a just above -1: near enough to keep the values swinging, far enough to be distinguished from -1
FACTORS = {"fp64": -(1 - 2.0**-20), "fp32": -(1 - 2.0**-14), "fp16": -(1 - 2.0**-10)}
LANES = {"fp64": 1, "fp32": 1, "fp16": 2}  # values in a register
TOLERANCE = {"fp64": 1e-9, "fp32": 1e-3, "fp16": 1e-2}
FIXED_POINTS = {"ex2": 0.6411857445049859, "rsqrt": 1.0}  # where x = 2^-x and x = 1/sqrt(x) converge


@dataclass
class Chain:
    """A launch of register chains on every SM."""

    device: Device
    kernel: str
    threads: int
    per_sm: int
    chains: int
    lanes: int
    arguments: tuple[Any, ...]
    out: int
    pace: int

    @property
    def grid(self) -> int:
        return self.device.sms * self.per_sm

    @property
    def operations(self) -> float:
        return float(self.grid * self.threads * self.chains * self.lanes * STEPS)

    def launch(self) -> None:
        self.device.launch(self.kernel, self.grid, self.threads, *self.arguments, u64(self.out), u64(self.pace))

    def __call__(self, loops: int) -> float:
        return self.device.elapsed(repeat(self.launch, loops))

    def clock(self) -> float:
        """Cycles the blocks counted over the seconds they took."""
        pace = self.device.download(self.pace, np.uint64, 2 * self.grid).reshape(-1, 2).astype(np.float64)
        return median((pace[:, 0] / np.maximum(pace[:, 1], 1.0)).tolist()) * 1e9

    def settings(self, dtype: str, tried: int) -> dict[str, Any]:
        shape = {"dtype": dtype, "block": self.threads, "blocks_per_sm": self.per_sm, "chains": self.chains}
        shape |= {"steps": STEPS, "variants_tried": tried}
        return {**shape, "burst": True, "timing": "events around queued launches"}


class Arithmetic:
    """Seeds and results that the chains share."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.out, self.pace = device.allocate(device.sms * 2048 * 8), device.allocate(device.sms * 64 * 16)
        random = np.random.default_rng(5)
        self.seeds: dict[str, NDArray[Any]] = {}
        self.at: dict[str, tuple[int, int]] = {}
        self.repeated: dict[tuple[str, int], NDArray[np.float64]] = {}
        for dtype, kind in NUMPY.items():
            values = random.standard_normal(SEEDS * LANES[dtype]).astype(kind)
            factor = np.full(LANES[dtype], FACTORS[dtype], kind)
            self.seeds[dtype] = values
            self.at[dtype] = device.allocate(values.nbytes), device.allocate(16)
            device.upload(self.at[dtype][0], values)
            device.upload(self.at[dtype][1], factor)

    def multiply_adds(self, dtype: str, threads: int, per_sm: int, chains: int) -> Chain:
        seeds, factor = self.at[dtype]
        arguments = (u64(seeds), u32(SEEDS), u64(factor), u32(STEPS))
        kernel = f"multiply_adds<{TYPES[dtype]}, {chains}>"
        return Chain(self.device, kernel, threads, per_sm, chains, LANES[dtype], arguments, self.out, self.pace)

    def specials(self, function: str, threads: int, per_sm: int, chains: int) -> Chain:
        arguments = (u64(self.at["fp32"][0]), u32(SEEDS), u32(STEPS))
        kernel = f"specials<{SPECIALS[function]}, {chains}>"
        return Chain(self.device, kernel, threads, per_sm, chains, 1, arguments, self.out, self.pace)

    def best(self, make: Callable[[int, int, int], Chain], quick: bool) -> tuple[Chain, int]:
        """The shape with the highest rate on a short sample, and how many were tried."""
        shapes = [(threads, per_sm) for threads in (256, 512, 1024) for per_sm in (1, 2, 4, 8) if 512 <= threads * per_sm <= 2048]  # fmt: skip
        if quick:
            shapes = [(256, 4), (1024, 2)]
        ranked: list[tuple[float, int, Chain]] = []
        for threads, per_sm in shapes:
            for chains in CHAINS if not quick else (8,):
                chain = make(threads, per_sm, chains)
                chain(1)
                ranked.append((min(chain(1) for _ in range(2)) / chain.operations, len(ranked), chain))
        return min(ranked, key=lambda row: row[:2])[2], len(ranked)

    def expected(self, dtype: str, chains: int) -> NDArray[np.float64]:
        """What the first threads should end with, every step rounded as the device rounds it; computed once."""
        if (dtype, chains) in self.repeated:
            return self.repeated[dtype, chains]
        kind, lanes = NUMPY[dtype], LANES[dtype]
        seeds = self.seeds[dtype].reshape(SEEDS, lanes).astype(np.float64)
        thread = np.arange(CHECKED_THREADS)
        x = seeds[(thread[:, None] * chains + np.arange(chains)) % SEEDS]
        b = seeds[(thread + SEEDS // 2) % SEEDS][:, None, :]
        a = float(kind(FACTORS[dtype]))
        for _ in range(STEPS):
            x = (x * a + b).astype(kind).astype(np.float64)  # one rounding, as in a fused multiply-add
        total = x[:, 0]
        for j in range(1, chains):
            total = (total + x[:, j]).astype(kind).astype(np.float64)
        self.repeated[dtype, chains] = np.asarray(total.reshape(-1))
        return self.repeated[dtype, chains]


def arithmetic(device: Device, quick: bool) -> list[Probe]:
    unit = Arithmetic(device)
    probes = [_multiply_adds(unit, dtype, quick) for dtype in TYPES]
    return probes + [_special(unit, function, quick) for function in SPECIALS]


def _multiply_adds(unit: Arithmetic, dtype: str, quick: bool) -> Probe:
    chain, tried = unit.best(partial(unit.multiply_adds, dtype), quick)
    settings = chain.settings(dtype, tried)
    name = f"fma {dtype}x2" if LANES[dtype] == 2 else f"fma {dtype}"

    def check() -> None:
        chain(1)  # the answer is of the kernel that ran last
        settings["sm_clock_seen"] = chain.clock()
        count = CHECKED_THREADS * LANES[dtype]
        actual = unit.device.download(unit.out, NUMPY[dtype], count).astype(np.float64)
        expected, tolerance = unit.expected(dtype, chain.chains), TOLERANCE[dtype]
        if not np.allclose(actual, expected, rtol=tolerance, atol=tolerance * float(np.abs(expected).max())):
            raise RidgelineError(f"probe {name}: the chains end at wrong values; do not use it")

    counted = work(vector={"fma": (2 * chain.operations,)}, dtype=dtype)
    return Probe(name, f"vector.{dtype}", chain, counted, settings, check=check)


def _special(unit: Arithmetic, function: str, quick: bool) -> Probe:
    chain, tried = unit.best(partial(unit.specials, function), quick)
    settings = chain.settings("fp32", tried) | {"function": function}

    def check() -> None:
        chain(1)
        settings["sm_clock_seen"] = chain.clock()
        actual = unit.device.download(unit.out, np.float32, CHECKED_THREADS).astype(np.float64)
        if not np.allclose(actual, FIXED_POINTS[function], rtol=1e-5):
            raise RidgelineError(f"probe special {function}: the chains end at wrong values; do not use it")

    counted = work(vector={function: (chain.operations,)}, dtype="fp32", special=chain.operations)
    return Probe(f"special {function}", "special.fp32", chain, counted, settings, check=check)
