"""Matrix products of a GPU's library: the best shape and layout for each format, in bursts and over sizes.

A product is compared with fp64 on a sample of its rows and columns. Data are standard normal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import RidgelineError, first_line
from ...core.statistics import median
from ...core.work import Work, work
from ..protocol import Probe, repeat
from .device import Library, triton_module
from .operands import FORMATS

# what the library is given, and how far the product of these very operands may lie from fp64 (relative, by norm)
MAX_ERRORS = {"fp64": 1e-12, "tf32": 2e-3, "bf16": 1e-2, "fp16": 2e-3, "fp8": 2e-2, "int8": 0.0}
BURST_SECONDS, REST_SECONDS = 0.010, 0.030  # of a burst of products, and of the rest before it
FINALISTS, REMATCHES = 3, 3
MAX_OPERAND_SETS = 2048  # that take turns in the size sweep
TORCH_TYPES = {**FORMATS, "fp8": "float8_e4m3fn"}
STORED = {"fp8": "bf16", "int8": "int32"}  # formats of products that differ from their operands'
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

    def __post_init__(self) -> None:
        self.call: Callable[[], Any]
        torch, device = self.library.torch, self.library.device
        generator = torch.Generator(device=device)
        generator.manual_seed(13)
        kind = getattr(torch, TORCH_TYPES[self.dtype])

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
            scale = torch.ones((), device=device, dtype=torch.float32)
            self.call = lambda: torch._scaled_mm(
                a, b, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True
            )
        elif self.dtype == "int8":
            self.call = lambda: torch._int_mm(a, b)
        else:
            self.out = out = torch.empty(self.m, self.n, device=device, dtype=kind)
            self.call = lambda: torch.matmul(a, b, out=out)

    def __call__(self, loops: int) -> float:
        return self.library.elapsed(repeat(self.call, loops))

    def kernel(self) -> str:
        """The library's kernel behind the product, as the framework's profiler names it; empty where it cannot say."""
        torch = self.library.torch
        try:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as session:
                self.call()
                torch.cuda.synchronize()
            rows = sorted(session.key_averages(), key=lambda row: row.self_device_time_total)
            return str(rows[-1].key) if rows else ""
        except Exception:  # no profiling library, no permission: the name is a courtesy
            return ""

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def work(self) -> Work:
        read = {"A": (self.m * self.k, self.dtype), "B": (self.k * self.n, self.dtype)}
        write = {"C": (self.m * self.n, STORED.get(self.dtype, self.dtype))}
        return work(matrix={"product": (self.flops,)}, read=read, write=write, dtype=self.dtype)

    def check(self, replay: Callable[[], None] | None = None) -> None:
        """Compare a sample of C with fp64; with `replay` the C it leaves, which is overwritten before."""
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
        actual = result[rows][:, columns].double()
        # fp8 cannot be indexed on every device, so the operands are widened a row at a time
        wide = torch.float32 if self.dtype != "fp64" else torch.float64
        a = torch.stack([self.a[int(row)].to(wide) for row in rows])
        b = torch.stack([self.b[:, int(column)].to(wide) for column in columns])
        expected = a.double() @ b.double().t()
        error = float((actual - expected).norm() / expected.norm())
        if not error <= MAX_ERRORS[self.dtype]:
            raise RidgelineError(
                f"probe gemm {self.dtype}: relative error {error:.2g} against fp64, at most {MAX_ERRORS[self.dtype]:g} is right"
            )


def shapes(dtype: str, sms: int, quick: bool, scale: int = 8192) -> list[tuple[int, int, int, str]]:
    """Shapes and layouts worth trying; `64 sms` rows make whole waves of the usual 128 x 256 tiles."""
    half = scale // 2
    waves = 64 * sms if scale >= 64 * sms // 2 else scale
    layouts = ("nt",) if dtype in ("fp8", "int8") else ("nt", "nn", "tn")
    if dtype == "fp64":
        cubes = [(half, half, half), (waves // 2, half, half), (scale, half, half), (scale, scale, half)]
    else:
        cubes = [(half, half, half), (scale, scale, scale), (waves, scale, scale), (waves, half, scale)]
        cubes += [(scale, scale, 2 * scale), (waves, scale, half), (2 * scale, scale, scale)]
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
    kernels = triton_module("matmul") if dtype == "int8" and library.on_gpu and not quick else None
    if kernels is not None:
        m, n, k = ranked[0][1].m, ranked[0][1].n, ranked[0][1].k
        for config in kernels.CONFIGS:
            try:
                product = Product(library, dtype, m, n, k, "nt", kernels, config)
                product.check()
                rank(product)
            except Exception as error:  # a tile too large for this device, or a compiler that cannot
                reason = str(error).strip() or type(error).__name__
                table.append({"tile": list(config), "failed": reason.splitlines()[-1]})
    rates = {place: [short_rate(product) for _ in range(REMATCHES)] for place, (_, product) in enumerate(ranked)}
    return ranked[max(rates, key=lambda place: median(rates[place]))][1], table


def short_rate(product: Product) -> float:
    """Rate of a few products after a rest, so that one candidate does not suffer from the heat of another."""
    product(1)
    seconds = max(product(1), 1e-9)
    loops = max(2, min(50, int(BURST_SECONDS / seconds)))
    product.library.rest(REST_SECONDS)
    return product.flops * loops / product(loops)


def burst(product: Product, table: Sequence[dict[str, Any]]) -> Probe:
    settings = product_settings(product, table) | {"burst": True}
    name, target = f"gemm {product.dtype} burst", f"tensor.{product.dtype}"

    def call(loops: int) -> float:
        product.library.rest(REST_SECONDS)
        return product(loops)

    return Probe(name, target, call, product.work, settings, check=product.check, min_seconds=BURST_SECONDS)


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
        "timing": f"events around queued products; a burst begins after {REST_SECONDS * 1e3:.0f} ms of rest",
    }


def by_size(library: Library, dtype: str, l2: int, quick: bool, largest: int = 16384) -> list[Probe]:
    """Square products from small to large in a graph, operands taking turns while they are many enough to leave the L2."""
    probes = []
    size = 128
    while size <= largest:
        sets = int(min(MAX_OPERAND_SETS, max(1, -(-3 * l2 // (6 * size * size)))))
        probes.append(_square(library, dtype, size, sets, cold=sets * 6 * size * size >= 2 * l2))
        size *= 4 if quick else 2
    return probes


def _square(library: Library, dtype: str, size: int, sets: int, cold: bool) -> Probe:
    products: list[Product] = []
    replay: list[Callable[[], None]] = []
    name = f"gemm {dtype} {size}^3"

    def prepare() -> None:
        products.extend(Product(library, dtype, size, size, size) for _ in range(sets))
        replay.append(library.record([product.call for product in products]))

    def call(loops: int) -> float:
        rounds = -(-loops // sets)
        library.rest(REST_SECONDS)
        return library.elapsed(repeat(replay[0], rounds)) * loops / (rounds * sets)

    flops = 2.0 * size**3
    read = {"A": (size * size, dtype), "B": (size * size, dtype)}
    counted = work(matrix={"product": (flops,)}, read=read, write={"C": (size * size, dtype)}, dtype=dtype)
    settings: dict[str, Any] = {"dtype": dtype, "shape": {"m": size, "n": size, "k": size}, "layout": "nt"}
    settings |= {"state": "cold" if cold else "resident", "burst": True, "sweep_over": "size"}
    settings |= {"timing": f"events around replays of a graph of {sets} products"}
    notes = ("a point of the size sweep, not a ceiling",)
    return Probe(
        name, f"tensor.{dtype}", call, counted, settings, notes, prepare, lambda: products[-1].check(replay[0])
    )


def rank_products(
    library: Library, sms: int, quick: bool, scale: int, gaps: list[str], dtypes: Sequence[str] = ()
) -> dict[str, tuple[Product, list[dict[str, Any]]]]:
    """The best product of each format, checked, with its ranking; a format that cannot be multiplied becomes a gap."""
    library.torch.set_float32_matmul_precision("high")  # tf32: without it fp32 is multiplied on the vector units
    ranked = {}
    for dtype in dtypes or MAX_ERRORS:
        try:
            best, table = best_product(library, dtype, sms, quick, scale)
            best.check()
        except (RuntimeError, NotImplementedError, TypeError) as error:  # the device or this torch has no such product
            gaps.append(f"gemm {dtype}: {first_line(error)}")
            continue
        ranked[dtype] = best, table
    return ranked
