"""How many passes a cache takes until it holds a working set: the rate of every pass over a set that it does not hold yet.

python benchmarks/cache_settling.py        the middle of the last cache; several tries, the memory read in between
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from ridgeline.core.statistics import median
from ridgeline.core.units import show
from ridgeline.machines.detect.local import here
from ridgeline.measure.cpu.bench import WARM_PASSES, Bench
from ridgeline.measure.cpu.build import build
from ridgeline.measure.cpu.pool import Library

PASSES, TRIES = 16, 7


def main() -> int:
    bench = Bench(Library(build()), here("cpu"), True)
    pool = bench.pools[0]
    cache = bench.zones(pool)[-2]
    for share, size in (("middle", int(cache.middle)), ("most", int(cache.last))):
        kernel = bench.fastest(bench.library.streams("read"), pool, size)
        touched = pool.touched(kernel, size)
        tries = []
        for _ in range(TRIES):
            pool.run(kernel, pool.size)  # the largest set, so that nothing of the smaller one is left
            tries.append([touched / pool.run(kernel, size).seconds for _ in range(PASSES)])
        rates = [median([run[place] for run in tries]) for place in range(PASSES)]
        warm = next(place for place, rate in enumerate(rates) if rate > 0.95 * max(rates))
        print(f"{cache.name}, {share} ({show(touched, 'B', binary=True)}), {kernel.isa}: pass by pass, GB/s")
        print("  " + " ".join(f"{rate / 1e9:.1f}" for rate in rates))
        print(f"  within 5 % of the best from pass {warm + 1} on; {WARM_PASSES} are made before a sample")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
