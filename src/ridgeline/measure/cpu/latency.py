"""Latency of a CPU's memory by working set: a random cycle over all lines, followed by dependent loads."""

from __future__ import annotations

from ...core.errors import RidgelineError
from ...core.notes import NOT_MEASURED, Note
from ...core.units import show
from ...core.work import Work
from ..protocol import Probe, Timing
from .bench import Bench
from .levels import MIN_BYTES, sweep
from .pool import LINE, NoMemory, Pool

HOPS = 16  # of one iteration of the pointer chase


def latencies(bench: Bench) -> list[Probe]:
    """One core; a working set that there is no memory for is named in the notes of the bench."""
    pool = bench.pools[0]
    middles = [int(zone.middle) for zone in bench.zones(pool)]
    sizes = middles if bench.quick else sorted({*sweep(4 * MIN_BYTES, pool.size, 2.0), *middles})
    probes = []
    for size in sizes:
        try:
            probes.append(_latency(bench, pool, size // LINE * LINE))
        except NoMemory as error:
            text = f"not measured: latency {show(size, 'B', binary=True)} ({error})"
            bench.notes += (Note(NOT_MEASURED, text),)
    return probes


def _latency(bench: Bench, pool: Pool, size: int) -> Probe:
    inside, nearest, outermost = bench.place(pool, size)
    chain = pool.chain(size)
    lap = 0 if outermost else size // LINE
    name = f"latency {show(size, 'B', binary=True)}"

    def call(loops: int) -> Timing:
        hops = -(-loops // HOPS) * HOPS
        seconds, busy = pool.chase(chain, hops, lap)
        return Timing(seconds * loops / hops, busy)

    def check() -> None:
        if not bench.library.raw.rl_chain_whole(chain):
            raise RidgelineError(f"probe {name}: the chase does not visit every line once")

    settings = {
        "mix": "chase", "bytes": size, "threads": 1, "line": LINE, "state": "resident" if lap else "cold", "burst": True,
    }  # fmt: skip
    return Probe(
        f"{name}, 1 core",
        f"latency.{inside.name}" if inside else f"sweep.latency.{nearest.name}",
        call,
        Work(name="one dependent load"),
        settings,
        ("one call is one hop of a random cycle over all lines, address translation included",),
        check=check,
    )
