"""Arithmetic probes of a GPU: multiply-add chains on the vector units, special functions, library matrix products.

A multiply-add is two flops, a special function one. Chains live in registers and their answers are followed step by
step in NumPy; a matrix product is compared with fp64 on a sample of its rows and columns. Data are standard normal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ...core.work import Work, work
from ..protocol import Probe
from .device import CHAINS, SPECIALS, TYPES, Device, Library, triton_matmul, u32, u64

SEEDS = 4096  # normal numbers the chains start from
FOLLOWED = 64  # threads whose chains are followed in NumPy
STEPS = 16384
NUMPY: dict[str, Any] = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}
# x = x a + b with a just above -1: near enough to keep the values swinging, far enough to be told apart from -1
FACTORS = {"fp64": -(1 - 2.0**-20), "fp32": -(1 - 2.0**-14), "fp16": -(1 - 2.0**-10)}
LANES = {"fp64": 1, "fp32": 1, "fp16": 2}  # values in a register
TOLERANCE = {"fp64": 1e-9, "fp32": 1e-3, "fp16": 1e-2}
SETTLED = {"ex2": 0.6411857445049859, "rsqrt": 1.0}  # where x = 2^-x and x = 1/sqrt(x) end


# -- chains in registers ---------------------------------------------------------------------------------------


@dataclass
class Chain:
    """A launch of register chains on some of the SMs, and what it needs to be judged."""

    device: Device
    kernel: str
    threads: int
    per_sm: int
    chains: int
    lanes: int
    arguments: tuple[Any, ...]
    out: int
    pace: int
    sms: int = 0

    @property
    def grid(self) -> int:
        return (self.sms or self.device.sms) * self.per_sm

    @property
    def operations(self) -> float:
        return float(self.grid * self.threads * self.chains * self.lanes * STEPS)

    def launch(self) -> None:
        self.device.launch(self.kernel, self.grid, self.threads, *self.arguments, u64(self.out), u64(self.pace))

    def __call__(self, loops: int) -> float:
        def all_of_them() -> None:
            for _ in range(loops):
                self.launch()

        return self.device.elapsed(all_of_them)

    def clock(self) -> float:
        """Cycles the blocks counted over the seconds they took."""
        pace = self.device.download(self.pace, np.uint64, 2 * self.grid).reshape(-1, 2).astype(np.float64)
        return float(np.median(pace[:, 0] / np.maximum(pace[:, 1], 1.0))) * 1e9


class Arithmetic:
    """Seeds and results that the chains share."""

    def __init__(self, device: Device) -> None:
        self.device = device
        most = device.sms * 2048
        self.out, self.pace = device.allocate(most * 8), device.allocate(device.sms * 64 * 16)
        random = np.random.default_rng(5)
        self.seeds: dict[str, NDArray[Any]] = {}
        self.at: dict[str, tuple[int, int]] = {}
        self.followed: dict[tuple[str, int], NDArray[np.float64]] = {}
        for dtype, kind in NUMPY.items():
            values = random.standard_normal(SEEDS * LANES[dtype]).astype(kind)
            factor = np.full(LANES[dtype], FACTORS[dtype], kind)
            self.seeds[dtype] = values
            self.at[dtype] = device.allocate(values.nbytes), device.allocate(16)
            device.upload(self.at[dtype][0], values)
            device.upload(self.at[dtype][1], factor)

    def multiply_adds(self, dtype: str, threads: int, per_sm: int, chains: int, sms: int = 0) -> Chain:
        seeds, factor = self.at[dtype]
        arguments = (u64(seeds), u32(SEEDS), u64(factor), u32(STEPS))
        kernel = f"multiply_adds<{TYPES[dtype]}, {chains}>"
        return Chain(self.device, kernel, threads, per_sm, chains, LANES[dtype], arguments, self.out, self.pace, sms)

    def specials(self, which: str, threads: int, per_sm: int, chains: int) -> Chain:
        arguments = (u64(self.at["fp32"][0]), u32(SEEDS), u32(STEPS))
        kernel = f"specials<{SPECIALS[which]}, {chains}>"
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

    def follow(self, dtype: str, chains: int) -> NDArray[np.float64]:
        """What the first threads should end with, every step rounded as the device rounds it; found once."""
        if (dtype, chains) in self.followed:
            return self.followed[dtype, chains]
        kind, lanes = NUMPY[dtype], LANES[dtype]
        seeds = self.seeds[dtype].reshape(SEEDS, lanes).astype(np.float64)
        thread = np.arange(FOLLOWED)
        x = seeds[(thread[:, None] * chains + np.arange(chains)) % SEEDS]
        b = seeds[(thread + SEEDS // 2) % SEEDS][:, None, :]
        a = float(kind(FACTORS[dtype]))
        for _ in range(STEPS):
            x = (x * a + b).astype(kind).astype(np.float64)  # one rounding, as in a fused multiply-add
        total = x[:, 0]
        for j in range(1, chains):
            total = (total + x[:, j]).astype(kind).astype(np.float64)
        self.followed[dtype, chains] = np.asarray(total.reshape(-1))
        return self.followed[dtype, chains]


def arithmetic(device: Device, quick: bool) -> tuple[Arithmetic, list[Probe]]:
    unit = Arithmetic(device)
    probes = []
    for dtype in TYPES:
        chain, tried = unit.best(partial(unit.multiply_adds, dtype), quick)
        settings = _shape(chain, dtype, tried)
        name = f"fma {dtype}x2" if LANES[dtype] == 2 else f"fma {dtype}"

        def check(
            dtype: str = dtype, chain: Chain = chain, name: str = name, settings: dict[str, Any] = settings
        ) -> None:
            settings["sm_clock_seen"] = chain.clock()
            found = device.download(unit.out, NUMPY[dtype], FOLLOWED * LANES[dtype]).astype(np.float64)
            if not chain_agrees(found, unit.follow(dtype, chain.chains), TOLERANCE[dtype]):
                raise RidgelineError(f"probe {name}: the chains end at wrong values; do not use it")

        # the answer is of the kernel that ran last, so it is made anew before it is judged
        def fresh(check: Callable[[], None] = check, chain: Chain = chain) -> None:
            chain(1)
            check()

        counted = work(vector={"fma": (2 * chain.operations,)}, dtype=dtype)
        probes.append(Probe(name, f"vector.{dtype}", chain, counted, settings, check=fresh))
    for which in SPECIALS:
        chain, tried = unit.best(partial(unit.specials, which), quick)
        settings = _shape(chain, "fp32", tried) | {"function": which}

        def settled(which: str = which, chain: Chain = chain, settings: dict[str, Any] = settings) -> None:
            chain(1)
            settings["sm_clock_seen"] = chain.clock()
            found = device.download(unit.out, np.float32, FOLLOWED).astype(np.float64)
            if not np.allclose(found, SETTLED[which], rtol=1e-5):
                raise RidgelineError(f"probe special {which}: the chains end at wrong values; do not use it")

        counted = work(vector={which: (chain.operations,)}, dtype="fp32", special=chain.operations)
        probes.append(Probe(f"special {which}", "special.fp32", chain, counted, settings, check=settled))
    return unit, probes


def chain_agrees(found: NDArray[np.float64], asked: NDArray[np.float64], tolerance: float) -> bool:
    return bool(np.allclose(found, asked, rtol=tolerance, atol=tolerance * float(np.abs(asked).max())))


def _shape(chain: Chain, dtype: str, tried: int) -> dict[str, Any]:
    return {
        "dtype": dtype,
        "block": chain.threads,
        "blocks_per_sm": chain.per_sm,
        "chains": chain.chains,
        "steps": STEPS,
        "variants_tried": tried,
        "burst": True,
        "timing": "events around queued launches",
    }


# -- library matrix products -----------------------------------------------------------------------------------

# what the library is given, and how far the product of these very operands may lie from fp64 (relative, by norm)
PRODUCTS = {"fp64": 1e-12, "tf32": 2e-3, "bf16": 1e-2, "fp16": 2e-3, "fp8": 2e-2, "int8": 0.0}
SHORT, REST = 0.010, 0.030  # seconds of a burst of products, and of the rest before it
FINALISTS, REMATCHES = 3, 3
MOST_SETS = 2048  # operands that take turns in the size sweep
LAYOUTS = {"nn": "A and B by rows", "nt": "B by columns, as torch.nn.Linear stores weights", "tn": "A by columns"}


@dataclass
class Product:
    """One matrix product C = A B of the library, set up once and called again and again."""

    library: Library
    dtype: str
    m: int
    n: int
    k: int
    layout: str = "nt"
    kernels: Any = None  # our Triton kernels, where not the library multiplies
    config: tuple[int, ...] = ()
    call: Callable[[], Any] = field(init=False)
    a: Any = field(init=False)
    b: Any = field(init=False)
    out: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        torch, device = self.library.torch, self.library.device
        generator = torch.Generator(device=device)
        generator.manual_seed(13)
        kinds = {"fp64": "float64", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn"}
        kinds["int8"] = "int8"
        kind = getattr(torch, kinds[self.dtype])

        def normal(rows: int, columns: int) -> Any:
            first = torch.float64 if self.dtype == "fp64" else torch.float32
            values = torch.randn(rows, columns, device=device, dtype=first, generator=generator)
            return (values * 32).round().clamp(-127, 127).to(kind) if self.dtype == "int8" else values.to(kind)

        self.a = normal(self.k, self.m).t() if self.layout == "tn" else normal(self.m, self.k)
        self.b = normal(self.n, self.k).t() if self.layout == "nt" else normal(self.k, self.n)
        a, b = self.a, self.b
        if self.kernels is not None:
            stored = {"fp8": torch.bfloat16, "int8": torch.int32}.get(self.dtype, kind)
            self.call = self.kernels.product(torch, a, b, self.config, stored)
        elif self.dtype == "fp8":
            one = torch.ones((), device=device, dtype=torch.float32)
            self.call = lambda: torch._scaled_mm(
                a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
            )
        elif self.dtype == "int8":
            self.call = lambda: torch._int_mm(a, b)
        else:
            self.out = out = torch.empty(self.m, self.n, device=device, dtype=kind)
            self.call = lambda: torch.matmul(a, b, out=out)

    def __call__(self, loops: int) -> float:
        def all_of_them() -> None:
            for _ in range(loops):
                self.call()

        return self.library.elapsed(all_of_them)

    def kernel(self) -> str:
        """The library's kernel behind the product, as the framework's profiler names it; empty where it cannot say."""
        torch = self.library.torch
        try:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
                self.call()
                torch.cuda.synchronize()
            rows = sorted(seen.key_averages(), key=lambda row: row.self_device_time_total)
            return str(rows[-1].key) if rows else ""
        except Exception:  # no profiling library, no permission: the name is a courtesy
            return ""

    @property
    def work(self) -> Work:
        read = {"A": (self.m * self.k, self.dtype), "B": (self.k * self.n, self.dtype)}
        stored = {"fp8": "bf16", "int8": "int32"}.get(self.dtype, self.dtype)
        flops = 2.0 * self.m * self.n * self.k
        return work(matrix={"product": (flops,)}, read=read, write={"C": (self.m * self.n, stored)}, dtype=self.dtype)

    def check(self, replay: Callable[[], None] | None = None) -> None:
        """Compare a sample of C with fp64; with `replay` the C it leaves, which is spoiled before."""
        torch = self.library.torch
        if replay is None:
            result = self.call()
        else:
            self.out.fill_(float("nan"))
            replay()
            self.library.synchronize()
            result = self.out
        random = np.random.default_rng(17)
        rows = torch.as_tensor(random.integers(0, self.m, 32), device=self.library.device)
        columns = torch.as_tensor(random.integers(0, self.n, 32), device=self.library.device)
        found = result[rows][:, columns].double()
        # fp8 has no indexing of its own on every device, so whole operands are widened a row at a time
        a = torch.stack([self.a[int(row)].to(torch.float32 if self.dtype != "fp64" else torch.float64) for row in rows])
        b = torch.stack(
            [self.b[:, int(c)].to(torch.float32 if self.dtype != "fp64" else torch.float64) for c in columns]
        )
        asked = a.double() @ b.double().t()
        error = float((found - asked).norm() / asked.norm())
        if not error <= PRODUCTS[self.dtype]:
            raise RidgelineError(
                f"probe gemm {self.dtype}: relative error {error:.2g} against fp64, at most {PRODUCTS[self.dtype]:g} is right"
            )


def shapes(dtype: str, sms: int, quick: bool, scale: int = 8192) -> list[tuple[int, int, int, str]]:
    """Shapes and layouts worth trying; `64 sms` rows make whole waves of the usual 128 x 256 tiles."""
    half = scale // 2
    whole = 64 * sms if scale >= 64 * sms // 2 else scale
    layouts = ("nt",) if dtype in ("fp8", "int8") else ("nt", "nn", "tn")
    if dtype == "fp64":
        cubes = [(half, half, half), (whole // 2, half, half), (scale, half, half), (scale, scale, half)]
    else:
        cubes = [(half, half, half), (scale, scale, scale), (whole, scale, scale), (whole, half, scale)]
        cubes += [(scale, scale, 2 * scale), (whole, scale, half), (2 * scale, scale, scale)]
        cubes += [(2 * scale, 2 * scale, scale), (2 * scale, 2 * scale, 2 * scale)]
    if quick:
        cubes, layouts = [cubes[1], cubes[2]], layouts[:1]
    return [(m, n, k, layout) for m, n, k in cubes for layout in layouts]


def best_product(
    library: Library, dtype: str, sms: int, quick: bool, scale: int = 8192
) -> tuple[Product, list[dict[str, Any]]]:
    """The shape, layout and maker with the highest rate on a short sample, and the rates of all that were tried."""
    table: list[dict[str, Any]] = []
    ranked: list[tuple[float, Product]] = []

    def rank(product: Product) -> None:
        rate = short_rate(product)
        shape = {"m": product.m, "n": product.n, "k": product.k, "layout": product.layout}
        table.append({**shape, "rate": rate, **({"tile": list(product.config)} if product.config else {})})
        ranked.append((rate, product))
        ranked.sort(key=lambda row: -row[0])
        del ranked[FINALISTS:]  # the operands of the others are let go

    for m, n, k, layout in shapes(dtype, sms, quick, scale):
        rank(Product(library, dtype, m, n, k, layout))
    # the library multiplies int8 on Hopper with kernels of the generation before; ours shows what the units give
    kernels = triton_matmul() if dtype == "int8" and library.on_gpu and not quick else None
    if kernels is not None:
        m, n, k = ranked[0][1].m, ranked[0][1].n, ranked[0][1].k
        for config in kernels.CONFIGS:
            try:
                rank(checked(Product(library, dtype, m, n, k, "nt", kernels, config)))
            except (
                Exception
            ) as error:  # a tile too large for this device, or a compiler that cannot: the library's stands
                told = str(error).strip() or type(error).__name__
                table.append({"tile": list(config), "failed": told.splitlines()[-1]})
    rates = {place: [short_rate(product) for _ in range(REMATCHES)] for place, (_, product) in enumerate(ranked)}
    return ranked[max(rates, key=lambda place: float(np.median(rates[place])))][1], table


def short_rate(product: Product) -> float:
    """Rate of a few products after a rest, so that one candidate does not suffer from the heat of another."""
    product(1)
    once = max(product(1), 1e-9)
    loops = max(2, min(50, int(SHORT / once)))
    product.library.rest(REST)
    return 2.0 * product.m * product.n * product.k * loops / product(loops)


def checked(product: Product) -> Product:
    product.check()
    return product


def product_settings(product: Product, table: Sequence[dict[str, Any]]) -> dict[str, Any]:
    version = product.library.torch.__version__
    library = f"cuBLAS through torch {version}" if product.library.on_gpu else f"torch {version}"
    return {
        "dtype": product.dtype,
        "shape": {"m": product.m, "n": product.n, "k": product.k},
        "layout": product.layout,
        "layout_means": LAYOUTS[product.layout],
        "library": library if product.kernels is None else f"our Triton kernel, tile {list(product.config)}",
        "variants_tried": len(table),
        "sweep": list(table),
        "timing": f"events around queued products; a burst begins after {REST * 1e3:.0f} ms of rest",
    }


def by_size(library: Library, dtype: str, l2: int, quick: bool, largest: int = 16384) -> list[Probe]:
    """Square products from small to large in a graph, operands taking turns while they are many enough to leave the L2."""
    torch = library.torch
    probes = []
    size = 128
    while size <= largest:
        sets = int(min(MOST_SETS, max(1, -(-3 * l2 // (6 * size * size)))))
        probes.append(_square(library, torch, dtype, size, sets, cold=sets * 6 * size * size >= 2 * l2))
        size *= 4 if quick else 2
    return probes


def _square(library: Library, torch: Any, dtype: str, size: int, sets: int, cold: bool) -> Probe:
    products: list[Product] = []
    replay: list[Callable[[], None]] = []
    name = f"gemm {dtype} {size}^3"

    def prepare() -> None:
        products.extend(Product(library, dtype, size, size, size) for _ in range(sets))
        replay.append(library.record([product.call for product in products]))

    def call(loops: int) -> float:
        rounds = -(-loops // sets)

        def all_of_them() -> None:
            for _ in range(rounds):
                replay[0]()

        library.rest(REST)
        return library.elapsed(all_of_them) * loops / (rounds * sets)

    flops = 2.0 * size**3
    read = {"A": (size * size, dtype), "B": (size * size, dtype)}
    counted = work(matrix={"product": (flops,)}, read=read, write={"C": (size * size, dtype)}, dtype=dtype)
    settings = {
        "dtype": dtype,
        "shape": {"m": size, "n": size, "k": size},
        "layout": "nt",
        "state": "cold" if cold else "resident",
        "burst": True,
        "sweep_over": "size",
        "timing": f"events around replays of a graph of {sets} products",
    }
    notes = ("a point of the size sweep, not a ceiling",)
    return Probe(
        name, f"tensor.{dtype}", call, counted, settings, notes, prepare, lambda: products[-1].check(replay[0])
    )
