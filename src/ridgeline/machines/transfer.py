"""Coefficients that a GPU without timings takes from others: whose, and how they are adapted to it.

Coefficients come from the machine's own architecture where it was timed, else from the architectures most like it. What
a coefficient means decides how it moves to another machine:

    shares of the peak or the bandwidth      as they are, because the formula multiplies them with the machine's figures
    latencies, which are clock cycles        x clock of the lender / clock of the machine
    launches of several kernels              the shortest launch stays, the rest is cycles
    caches and cores over main memory        the same bytes per core and cycle, where the machine has less memory bandwidth
    weight-only products                     flops per core and cycle stay: these kernels do not use newer instructions
    other kernels below half of the peak     the same, up to the most that is known: older instructions, or units that are not filled;
                                             judged at a usual tile, whose operands take as many cycles on units of any rate
    the softmax of attention                 as many cycles of a core: fewer flops of the products where those are slower
    smallest tile of products                smaller where the machine's ridge is lower: what hides behind the memory still does
    tiles of products in 8 bits              fetched and filled in as many cycles where the matrix units are slower than the lender's
    vector products                          at most the rate that the board's power pays for
    matrix products                          the same share of the rate that the board's power pays for, where energies are known
    a long row of a softmax                  at most as long as one core takes at its share of the bandwidth
    sorts, top-k and other rows that hardly  the same bytes per core and cycle: they wait for their own steps, not for the memory
    use the bandwidth
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import exp, hypot, inf, log
from typing import TYPE_CHECKING

from ..core.errors import MissingFigure
from ..core.fitted import OVER_MEMORY, Fitted
from ..core.machine import Machine
from .cycles import bytes_per_cycle, clock, per_cycle
from .defaults import defaults
from .power import MEASURED, base, powered

if TYPE_CHECKING:  # the formulas bring numpy, which listing machines does without
    from ..core.families import Key

Tables = Callable[[str], Mapping["Key", Fitted]]
WITHIN, BEYOND = "within", "beyond"  # tables of an architecture: for machines of it, and for all others
# The architectures that lend, most alike first. Kernels for one generation of tensor units are mostly written for it,
# so those with the same instructions come first; boards that are short of power (turing, ada) come last.
LENDERS: Mapping[str, tuple[str, ...]] = {
    "blackwell": ("hopper", "ampere", "volta", "ada", "turing"),
    "blackwell-rtx": ("ampere", "hopper", "ada", "volta", "turing"),
    "hopper": ("ampere", "volta", "ada", "turing"),
    "ada": ("ampere", "hopper", "volta", "turing"),
    "ampere": ("volta", "hopper", "ada", "turing"),
    "turing": ("volta", "ampere", "hopper", "ada"),
    "volta": ("ampere", "hopper", "turing", "ada"),
    "pascal": ("volta", "ampere", "hopper", "turing", "ada"),
    "cdna": ("hopper", "ampere", "volta", "turing", "ada"),
    "cdna2": ("cdna", "hopper", "ampere", "volta", "turing", "ada"),
    "cdna3": ("cdna", "hopper", "ampere", "volta", "turing", "ada"),
    "cdna4": ("cdna", "hopper", "ampere", "volta", "turing", "ada"),
}
OTHERS = ("ampere", "hopper", "volta", "ada", "turing")  # for an architecture that is not listed
# Coefficients in seconds that are clock cycles of the cores, by family.
CYCLES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("split", "row"),
    "decode": ("split", "sequence", "fill"),
    "moe": ("token", "expert"),
    "rows": ("serial", "row", "element"),
}
SEVERAL_KERNELS = ("attention", "decode", "moe")  # families whose calls are several kernels, one after the other
MATRIX_FORMATS = ("bf16", "fp16")
UNFILLED = ("attention", "attention_backward", "conv")  # families with kernels that do not fill the matrix units
# Backends that compile a kernel for the instructions of each GPU: it keeps its share of the peak.
COMPILED = ("triton",)
# Formats whose products are twice as fast as those in 16 bits on all GPUs that lend them; B300 has a thirtieth of that.
EIGHT_BITS, EIGHT_BITS_FASTER = ("int8", "fp8"), 2.0
# Coefficients of products that are cycles of loads over cycles of products, and the least they can be.
LOADED = {"tile": 0.5, "fill": 4.0}
VECTOR_PRODUCT_FORMATS = ("fp32", "fp64")  # whose ridges are others
LEAST_SIDE = 32.0  # of a tile of the matrix units
UNALIGNED = frozenset(("odd", "loose"))  # variants of products
USUAL_SIDE = 64.0  # of a tile of 128 x 128: rows times columns over their sum
LARGE_SIDE = 256 * 128 / (256 + 128)  # of the largest tile
# Of the peak, at that tile: kernels that leave the units half empty, and those that fill them.
HALF_FILLED, FILLED = 0.4, 0.5
MAX_FILLED = 0.7  # that they reach where the units are slower: FlashAttention-2 on an A100
WEIGHT_ONLY = ("moe", "weight_only")  # families that may have weights narrower than their arithmetic
STREAMS_CACHE = ("decode",)  # families whose kernels stream keys and values: how fast depends on the architecture
VECTOR_PRODUCTS = ("gemm", "conv")  # families of products that run on the vector units where there are no others
FUSED_PRODUCTS = ("attention", "attention_backward")  # families of products that add up on chip
# Families whose public timings are fitted without variants: within the architecture, they serve all variants of their ops.
POOLED = ("rows", "conv")
# Convolutions that run kernels of their own: timings of plain ones say nothing of them.
OTHER_CONVOLUTIONS = ("grouped", "large", "point", "skip", "spread")
VECTOR_FORMATS = ("fp32",)  # whose energy per flop is known
# Families with kernels that can reach the power limit.
POWER_LIMITED = ("gemm", "conv", "attention", "attention_backward", "moe", "weight_only")
# A block streams a long row; timings of many rows alone do not say how fast, and fits leave it anywhere.
SHORT, STREAMED = "short", 8.0  # the variant of rows that a warp holds; bytes of an element, read and written in fp32
# Kernels of rows below this share of the bandwidth wait for their cores, and reach at most the other share where the memory is slower. Long
# rows are sorted in passes over the main memory, whose bytes are several times those that are counted.
STEPPING, MAX_STEPPING = 0.1, 0.25
IN_PASSES = "sort"
ON_CHIP = "block"  # the variant of sorts that keep a row in one
SHARES = ("compute", "memory", "sustained")  # of a ceiling: at most 1


def library(backend: str) -> str:
    """`vllm-0.24.0` is of vllm: rows are lent by library, whose versions are more alike than other libraries."""
    return backend.partition("-")[0]


def backends(asked: str) -> tuple[str, ...]:
    """Whose kernels serve a backend, best first: its own, those of its library, the default path."""
    return tuple(dict.fromkeys((asked, library(asked), "")))


def newest(asked: str, timed: Iterable[str]) -> str:
    """A library asked for by its name alone is its newest version among the backends timed, where it has versions there."""
    versions = {backend for backend in timed if library(backend) == asked}
    if not versions or asked in versions:
        return asked
    return max(versions, key=lambda backend: [int(number) for number in re.findall(r"\d+", backend)])


def unaligned(key: Key) -> bool:
    """Whether rows of a product begin off the addresses that its fast kernels load from."""
    return key.family == "gemm" and not UNALIGNED.isdisjoint(key.variant.split("-"))


def apart(key: Key) -> str:
    """What sets the kernels of a key apart from the plain ones of its family, whose timings say nothing of them; empty for plain ones."""
    if key.family == "conv":
        return next((part for part in key.variant.split("-") if part in OTHER_CONVOLUTIONS), "")
    return "unaligned" if unaligned(key) else ""


def sources(architecture: str) -> tuple[str, ...]:
    """The tables that lend to machines of an architecture, best first."""
    others = LENDERS.get(architecture) or LENDERS.get(base(architecture), OTHERS)
    own = (base(architecture),) if architecture not in LENDERS or base(architecture) == architecture else ()
    return (*(f"{WITHIN} {name}" for name in own), *(f"{BEYOND} {name}" for name in others))


def borrowed(machine: Machine, tables: Tables) -> dict[Key, Fitted]:
    """What the tables lend a machine, adapted to it; the first table that has a key lends it.

    A variant that was timed on other architectures alone is not lent where its own architecture was timed with all variants together.
    """
    fitted: dict[Key, Fitted] = {}
    timed: Mapping[Key, Fitted] = {}  # of the machine's own architecture
    streamed: Mapping[str, float] = {}  # share of the bandwidth that decoding reaches within the architecture
    for table in sources(machine.architecture):
        rows = tables(table)
        if rows:
            move = Move.between(table.rpartition(" ")[2], machine)
            adapted = {
                key: move.adapted(key, row)
                for key, row in rows.items()
                if key not in fitted and not _pooled(key, timed)
            }
            if table.startswith(WITHIN):
                timed, streamed = adapted, _streamed(adapted)
            fitted |= {key: _held(key, row, streamed) for key, row in adapted.items()}
    return fitted


def _pooled(key: Key, timed: Mapping[Key, Fitted]) -> bool:
    """Whether timings of all variants of an op together serve this one."""
    return key.family in POOLED and any(wider in timed and apart(wider) == apart(key) for wider in key.wider_variants())


def _streamed(rows: Mapping[Key, Fitted]) -> dict[str, float]:
    """Share of the bandwidth that each library's decoding reaches at most."""
    shares: dict[str, float] = {}
    for key, row in rows.items():
        if key.family in STREAMS_CACHE:
            shares[key.backend] = max(shares.get(key.backend, 0.0), row.coefficients["memory"])
    return shares


def _held(key: Key, row: Fitted, streamed: Mapping[str, float]) -> Fitted:
    """A row whose decoding streams no faster than on GPUs of the machine's own architecture: wide heads that were timed on others were
    so fast that narrower ones, padded to them, seemed to be as well."""
    most = streamed.get(key.backend, streamed.get("")) if key.family in STREAMS_CACHE else None
    if most is None or row.coefficients["memory"] <= most:
        return row
    return replace(row, coefficients={**row.coefficients, "memory": most})


def on_chip(key: Key) -> bool:
    """Whether kernels of rows move the bytes that are counted, and no more."""
    return key.op != IN_PASSES or key.variant.startswith(ON_CHIP)


@dataclass(frozen=True)
class Move:
    """What differs between the GPUs of an architecture and a machine that borrows from them."""

    slower: float  # how much longer a clock cycle takes
    per_cycle: float  # how much less of its peak a kernel reaches that does as many flops per core and cycle
    scarcer: float  # how much less main memory gives a core per cycle; 1 where it gives as much
    powered: Mapping[str, float]  # share of the peak that the board's power pays for, by dtype
    lender_powered: float  # and that of the lender
    paid: Mapping[str, tuple[float, float]]  # the same of matrix products, by dtype: of the machine, and of the lender
    slow: Mapping[str, float] = field(
        default_factory=dict
    )  # flops of a core per cycle over the lender's, by format of 8 bits, where fewer
    lower_ridge: float = 1.0  # flops per byte of main memory over the lender's, where fewer
    core_byte: float = inf  # seconds of one core for a byte, at its share of the bandwidth
    fuller: float = 1.0  # main memory per core and cycle of the GPU whose rows were timed, over the machine's

    @classmethod
    def between(cls, lender: str, machine: Machine) -> Move:
        mine, rate, rates = clock(machine), per_cycle(machine), defaults("lender_per_cycle")
        return cls(
            defaults("lender_clock")[lender] / mine if mine else 1.0,
            rates[lender] / rate if rate and lender in rates else 1.0,
            max(defaults("lender_bytes_per_cycle")[lender] / fed, 1.0) if (fed := bytes_per_cycle(machine)) else 1.0,
            {dtype: powered(machine, dtype) for dtype in VECTOR_FORMATS},
            defaults("lender_powered").get(lender, 1.0),
            {
                dtype: (powered(machine, dtype), share if lender in MEASURED else 1.0)
                for dtype, share in defaults("matrix_powered").items()
            },
            {
                dtype: min(each / (EIGHT_BITS_FASTER * rates[lender]), 1.0)
                for dtype in EIGHT_BITS
                if lender in rates and (each := per_cycle(machine, (dtype,)))
            },
            min(rate / fed * defaults("lender_bytes_per_cycle")[lender] / rates[lender], 1.0)
            if rate and fed and lender in rates
            else 1.0,
            1 / (fed * mine) if fed and mine else inf,
            defaults("rows_bytes_per_cycle").get(lender, fed) / fed if fed else 1.0,
        )

    def adapted(self, key: Key, row: Fitted) -> Fitted:
        """Coefficients of the architecture as the machine has them."""
        values = dict(row.coefficients)
        for name in CYCLES.get(key.family, ()):
            if name in values:
                values[name] *= self.slower
        for name in OVER_MEMORY.get(key.family, ()):
            if name in values:
                values[name] *= self.scarcer
        if key.family == "rows" and key.op == "softmax" and SHORT not in key.variant:
            values["serial"] = min(values["serial"], STREAMED * self.core_byte)
        if key.family == "rows" and values["memory"] < STEPPING and on_chip(key):
            values["memory"] = min(values["memory"] * self.fuller, MAX_STEPPING)
        if key.family in SEVERAL_KERNELS:
            shortest = min(values["launch"], defaults("launch")["gpu"])
            values["launch"] = shortest + (values["launch"] - shortest) * self.slower
        if key.family in WEIGHT_ONLY and len(key.dtypes) > 1:
            values["compute"] *= self.per_cycle
        unfilled = (key.family in UNFILLED and library(key.backend) not in COMPILED) or unaligned(key)
        if unfilled and key.dtype in MATRIX_FORMATS and "compute" in values:
            values |= self._unfilled(values["compute"], values.get("tile"))
        if key.dtype in MATRIX_FORMATS and "softmax" in values:
            values |= self._softmax(values, values["compute"] / row.coefficients["compute"] / self.per_cycle)
        if key.family == "gemm":
            if key.dtypes[0] not in VECTOR_PRODUCT_FORMATS:
                values["smallest"] = max(values["smallest"] * self.lower_ridge, min(values["smallest"], LEAST_SIDE))
            for name, least in LOADED.items():
                if name in values:
                    values[name] = max(values[name] * self.slow.get(key.dtypes[0], 1.0), least)
        if key.family in VECTOR_PRODUCTS and key.dtype in self.powered and "compute" in values:
            limit = self.powered[key.dtype]
            values["compute"] = min(values["compute"] * max(limit / self.lender_powered, 1.0), limit)
        for name in SHARES:
            if values.get(name, 0.0) > 1.0:
                values[name] = 1.0
        high = row.high
        if key.family in POWER_LIMITED and "compute" in values:
            paid, excess = self._paid_for(key.dtype, values)
            values["compute"] *= paid
            if paid < 1.0:
                high = exp(hypot(log(max(high, 1.0)), log(min(excess, 1 / paid))))
        return replace(row, coefficients=values, high=high, borrowed=True)

    @staticmethod
    def _softmax(values: Mapping[str, float], faster: float) -> dict[str, float]:
        """What is no product in an attention: it takes a core as many cycles, and so as many more flops of the products as these are faster."""
        moved = {"softmax": values["softmax"] * faster}
        return moved | ({"narrow": 1 + (values["narrow"] - 1) * min(faster, 1.0)} if "narrow" in values else {})

    def _paid_for(self, dtype: str, values: Mapping[str, float]) -> tuple[float, float]:
        """Part of a kernel's rate in its largest tiles that the board's power pays for, and how much faster that is than without a pause.

        The lender's kernels were timed one by one, and reach somewhat more than its power pays for without a pause: the machine's
        are taken to reach as much more than its own, and the end of their interval to be later by that, or by what the power takes from them.
        """
        mine, lender = self.paid.get(dtype.partition("_")[0], (1.0, 1.0))
        reached = values["compute"] * values.get("sustained", 1.0) / (1 + values.get("tile", 0.0) / LARGE_SIDE)
        excess = max(1.0, reached / lender)
        return (min(1.0, mine * excess / reached) if reached else 1.0), excess

    def _unfilled(self, compute: float, tile: float | None) -> dict[str, float]:
        """Share of the peak, and side of a half-filled tile, of kernels that do as many flops per core and cycle where they leave the
        matrix units half empty, and as large a share of the peak where they fill them; between, something between.

        A tile of `side` takes 1 / compute for its products and tile / (compute side) for its operands: the latter takes as many cycles
        on units of any rate.
        """
        reached = compute * USUAL_SIDE / (USUAL_SIDE + (tile or 0.0))
        weight = min(max((FILLED - reached) / (FILLED - HALF_FILLED), 0.0), 1.0)
        share = min(compute * self.per_cycle**weight, max(compute, MAX_FILLED))
        if tile is None:
            return {"compute": share}
        return {"compute": share, "tile": tile * (share / compute / self.per_cycle) ** weight}


def adding_wider(machine: Machine, row: Fitted, lent: Key, asked: Key) -> Fitted:
    """Products in 16 bits on vector units borrow kernels that keep the rate of fp32: libraries add up in fp32 there.

    Four P100 were reported at 7.2 to 8.4 TFLOP/s in fp16 with sides of 4096 and 8192 and at 7.8 to 8.6 in fp32, where their peaks are
    18.7 and 9.3 (github.com/zzc0721/torch-performance-test-data, issues 164, 174, 175 and 177).
    """
    lends = lent.dtype == "fp32" if asked.family in VECTOR_PRODUCTS else asked.family in FUSED_PRODUCTS
    if not (lends and row.borrowed and asked.dtype in MATRIX_FORMATS) or f"tensor.{asked.dtype}" in machine.peaks:
        return row
    figures = (machine.peaks.get(f"vector.{dtype}") for dtype in ("fp32", asked.dtype))
    rates = [rate for figure in figures if figure and (rate := figure.stated or figure.value())]
    share = min(rates[0] / rates[1], 1.0) if len(rates) == 2 else 1.0
    return replace(row, coefficients={**row.coefficients, "compute": row.coefficients["compute"] * share})


def lender_scale(machine: Machine, dtype: str) -> dict[str, float]:
    """Factors for borrowed coefficients: the machine's published shares of peak and bandwidth over those of the lenders."""
    ceilings = {"memory": [machine.main.name], "compute": []}
    for each in dict.fromkeys(
        (dtype, *(MATRIX_FORMATS if dtype in MATRIX_FORMATS else ()))
    ):  # a share published for one half holds for the other
        with suppress(MissingFigure):  # a format without products
            ceilings["compute"].append(machine.engine("matrix", each))
    scale: dict[str, float] = {}
    for coefficient, usual in defaults("lender_efficiency").items():
        figures = filter(None, map(machine.efficiency.get, ceilings[coefficient]))
        published = next((figure.measured for figure in figures if figure.measured is not None), None)
        if published is not None:
            scale[coefficient] = published / usual
    return scale
