"""The CPU probes: right answers, fallbacks that say so, levels found. No speed is asserted anywhere."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ridgeline.core.documents import to_document
from ridgeline.core.errors import RidgelineError
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine
from ridgeline.core.notes import CONDITIONS, LOWER_BOUND, NOT_MEASURED, STOPPED, of_kind
from ridgeline.core.observation import Observation, from_document
from ridgeline.core.work import Work
from ridgeline.machines.calibrate import measured_machine
from ridgeline.measure import conditions, protocol
from ridgeline.measure.cpu import bench as bench_module
from ridgeline.measure.cpu import build as building
from ridgeline.measure.cpu import ceilings, numpy_streams
from ridgeline.measure.cpu import gemm as cpu_gemm
from ridgeline.measure.cpu import levels as cpu_levels
from ridgeline.measure.cpu import probes as cpu
from ridgeline.measure.cpu.bench import Bench
from ridgeline.measure.cpu.pool import PAGE, Kernel, Library, NoMemory, Pool, cores
from ridgeline.measure.protocol import Probe, Timing, interleave

MIXES = {"read": (8, 0), "write": (8, 0), "copy": (16, 0), "scale": (16, 1), "add": (24, 1), "triad": (24, 2)}


def caches(*sizes: float, cores: int = 1) -> Machine:
    """A machine with these caches, the last one shared."""
    levels = [
        Level(f"l{place}", Figure("B/s"), Figure("B", derived=size), instances=1 if place == len(sizes) else cores)
        for place, size in enumerate(sizes, 1)
    ]
    return Machine(
        "test", kind="cpu", units={"core": cores}, levels=(*levels, Level("memory", Figure("B/s"), Figure("B")))
    )


SMALL = caches(8192, 32768, 131072)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield Library(building.build())


def tiny(monkeypatch: pytest.MonkeyPatch, size: int = 1 << 19) -> None:
    """Arrays of so many bytes per thread on two cores at most, whatever the machine."""
    few = cores()[:2]
    for module in (bench_module, numpy_streams):
        monkeypatch.setattr(module, "working_set", lambda machine, threads, quick: size)
    for module in (bench_module, numpy_streams, cpu):
        monkeypatch.setattr(module, "cores", lambda: few)
    monkeypatch.setattr(bench_module, "SHORT_SECONDS", 1e-5)  # of ranking: no test asks which variant is the fastest
    monkeypatch.setattr(bench_module, "RANKING_TRIES", 1)
    monkeypatch.setattr(protocol, "SHORT_RETRIES", 1)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick measurement of tiny arrays without a time limit, so that a slow machine samples every probe too."""
    tiny(monkeypatch)
    monkeypatch.setattr(cpu, "QUICK", cpu.Effort(1, 1e-5, 0.0, 1e6, min_rounds=1, max_rounds=1))
    monkeypatch.setattr(cpu_gemm, "GEMM_SIZES", {True: (64,), False: (64,)})
    monkeypatch.setitem(cpu_gemm.MAX_SECONDS, True, float("inf"))


@pytest.fixture
def bench(library: Library, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The probes of a machine with tiny caches, over arrays of half a megabyte."""
    tiny(monkeypatch)
    return Bench(library, SMALL, True)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path / "cache"


def fake_compiler(folder: Path, script: str) -> str:
    file = folder / "fakecc"
    file.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo fakecc 1.0; exit 0; fi\n{script}\n', encoding="ascii"
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


# -- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.needs_compiler
def test_every_kernel_computes_what_it_should(library: Library) -> None:
    pool = Pool(library, cores()[:2], 1 << 17)
    ops = {kernel.op for kernel in library.kernels if kernel.kind == "stream"}
    assert ops >= {*ceilings.MIXES, "copy_nt", "triad_nt"}
    assert {kernel.dtype for kernel in library.kernels if kernel.kind == "fma"} >= {"fp64", "fp32"}
    for kernel in library.kernels:
        for size, reps in ((1, 1), (5000, 2), (1 << 17, 3)):
            timing = pool.run(kernel, size if kernel.kind == "stream" else 0, reps, 1, check=True)
            assert timing.seconds > 0
            assert 0 <= timing.busy <= 1


@pytest.mark.needs_compiler
def test_a_wrong_answer_names_the_probe(library: Library) -> None:
    pool = Pool(library, cores()[:1], 1 << 16)
    kernel = library.streams("read")[0]
    wrong = Kernel(**{**kernel.__dict__, "op": "read"})

    class Lies:
        def __getattr__(self, name: str) -> object:
            def run(*arguments: object) -> int:
                out = arguments[-1]
                out[0], out[1], out[2] = 1.0, 1.0, 3.0  # type: ignore[index]
                return 0

            return run if name == "rl_run" else getattr(library.raw, name)

    pool.library = type("Fake", (), {"raw": Lies(), "kernels": library.kernels})()  # type: ignore[assignment]
    with pytest.raises(RidgelineError, match=r"probe read .*3 wrong values"):
        pool.run(wrong, 1024, 1, 0, check=True)
    pool.library = library


@pytest.mark.needs_compiler
@pytest.mark.parametrize("mix", MIXES)
def test_bytes_and_flops_per_element_are_those_of_stream(library: Library, mix: str) -> None:
    """FP64 copy, scale, add, triad: 16/0, 16/1, 24/1, 24/2 bytes and flops per element."""
    kernel = library.streams(mix)[0]
    elements = 64 * 8
    pool = Pool(library, cores()[:1], 1 << 16)
    touched = pool.touched(kernel, elements * 8 * (kernel.reads + kernel.writes))
    counted = ceilings.stream_work(mix, kernel.reads, kernel.writes, kernel.flops, touched)
    assert (counted.bytes / elements, counted.flops / elements) == MIXES[mix]


@pytest.mark.needs_compiler
def test_latency_chain_visits_every_line_once(library: Library) -> None:
    pool = Pool(library, cores()[:1], 1 << 16)
    for size in (128, 4096, 1 << 18):
        chain = pool.chain(size)
        assert library.raw.rl_chain_whole(chain)
        assert pool.chase(chain, 1600, 16).seconds > 0
        assert library.raw.rl_chain_whole(chain)


@pytest.mark.needs_compiler
@pytest.mark.needs_machine
def test_measured_clock_is_a_clock(library: Library) -> None:
    """Between 1 MHz and 1 THz, however loaded the machine is."""
    pool = Pool(library, cores(), 1 << 16)
    assert 1e6 < ceilings.ADDS * 20_000 / pool.count_cycles(20_000).seconds < 1e12


@pytest.mark.needs_compiler
def test_one_core_uses_the_arrays_of_all(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arrays are all slices together, touched once; every kernel is right there and at an offset."""
    everyone = Pool(library, [cores()[0]] * 2, 1 << 17)
    alone = Pool(library, cores()[:1], 1 << 18, everyone)
    for kernel in (*library.streams("read"), *library.streams("triad")):
        assert alone.run(kernel, 1 << 18, 2, 0, check=True).seconds > 0
        assert everyone.run(kernel, 1 << 16, 1, 0, check=True, offset=1 << 16).seconds > 0


@pytest.mark.needs_compiler
def test_cold_passes_move_through_the_arrays(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pass begins where the one before did, and a pass is never longer than the arrays."""
    pool, places = Pool(library, cores()[:1], 1 << 20), list[tuple[int, int]]()
    monkeypatch.setattr(
        pool, "run", lambda kernel, size, reps, warm, offset: places.append((offset, size)) or Timing(1e-3)
    )
    kernel = library.streams("read")[0]
    for _ in range(6):
        pool.run_cold(kernel, 1)
    assert [offset for offset, _ in places] == [0, 1 << 18, 1 << 19, 3 << 18, 0, 1 << 18]
    timing = pool.run_cold(kernel, 8)
    assert places[-1] == (0, 1 << 20)
    assert timing.seconds == pytest.approx(2e-3)  # half of the eight quanta were passed over


@pytest.mark.needs_compiler
def test_too_little_memory_is_said(library: Library) -> None:
    with pytest.raises(RidgelineError, match=r"no memory for .* of probe arrays on 1 core; close other programs"):
        Pool(library, [0], 1 << 60)


def rationed(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """No arrays above so many bytes per core."""

    class Rationed(Pool):
        def __init__(self, library: Library, cpus: list[int], size: int, owner: Pool | None = None) -> None:
            if size > most and not owner:
                raise NoMemory(f"no memory for {size}")
            super().__init__(library, cpus, size, owner)

    tiny(monkeypatch)
    monkeypatch.setattr(bench_module, "Pool", Rationed)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("most", [1 << 19, 1 << 18, 1 << 17])
def test_short_memory_is_met_with_smaller_arrays(library: Library, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    rationed(monkeypatch, most)
    bench = Bench(library, SMALL, True)
    assert bench.pools[-1].size == most
    enough = most * bench.pools[-1].threads >= 2 * (1 << 17)
    assert bool(bench.notes) != enough


@pytest.mark.needs_compiler
def test_arrays_that_do_not_exceed_the_last_cache_are_said(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, 1 << 16)
    machine = caches(8192, 1 << 20)
    (note,) = Bench(library, machine, True).notes
    assert note.kind == CONDITIONS
    assert note.startswith("memory bandwidth measured over ")
    assert note.endswith("x the reported l2 (1 MiB): it may include cache hits")


@pytest.mark.parametrize("memory", [2e9, 64e9, 512e9])
@pytest.mark.parametrize("cores", [1, 2, 16, 128])
def test_a_huge_reported_cache_does_not_make_huge_arrays(
    monkeypatch: pytest.MonkeyPatch, memory: float, cores: int
) -> None:
    """300 MiB of L3 in a virtual machine: the arrays of all threads stay within a quarter of the memory and 4 GiB."""
    monkeypatch.setattr(cpu_levels, "available_memory", lambda: memory)
    machine = caches(49152, 2097152, 300 * 2.0**20, cores=cores)
    total = cpu_levels.working_set(machine, cores, True) * cores
    assert total <= min(memory / 4, 2.0**32) + cores * 16 * cpu_levels.MIN_BYTES
    assert total >= min(memory / 4, 1200 * 2.0**20)


def trial_takes(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Touching 512 KiB per core takes this long by the clock."""
    moments = iter([0.0, seconds])
    monkeypatch.setattr(bench_module, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
    monkeypatch.setattr(bench_module, "TRIAL_BYTES", 1 << 19)


@pytest.mark.needs_compiler
def test_arrays_are_no_larger_than_can_be_touched_in_time(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, 1 << 34)
    trial_takes(monkeypatch, 0.5)
    bench = Bench(library, SMALL, True)
    assert bench.pools[-1].size == int((1 << 19) * bench_module.TOUCH_SECONDS[True] / 0.5)


@pytest.mark.needs_compiler
def test_slow_touching_leaves_arrays_beyond_the_last_cache(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a trial takes long; the arrays still exceed the cache, whose bandwidth is not the memory's."""
    tiny(monkeypatch, 1 << 22)
    trial_takes(monkeypatch, 60.0)
    bench = Bench(library, caches(8192, 1 << 20), True)
    pool = bench.pools[-1]
    assert 2 << 20 <= pool.size * pool.threads < (2 << 20) + pool.threads * PAGE
    assert not bench.notes


@pytest.mark.needs_compiler
@pytest.mark.parametrize("most", [1 << 16, 1 << 17, 1 << 18])
def test_arrays_within_the_last_cache_stand_for_the_memory(
    library: Library, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Where memory is short of arrays beyond a large cache: the largest set is the memory's, ranked and named as such."""
    rationed(monkeypatch, most)
    bench = Bench(library, caches(8192, 1 << 20), True)
    assert bench.notes
    for pool in bench.pools:
        inside, nearest, outermost = bench.place(pool, pool.size // 512 * 512)
        assert (inside, outermost) == (nearest, True)
    rows = ceilings.memory_streams(bench, bench.pools[-1], ("read", "triad"), slice(0, 2))
    assert {row.target for row in rows} == {bench.zones(bench.pools[-1])[-1].name}


@pytest.mark.needs_compiler
def test_arrays_leave_room_for_the_library_products(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    rationed(monkeypatch, 1 << 19)
    answers = iter([NoMemory("no memory"), None])

    def room(size: int) -> None:
        assert size == bench_module.LIBRARY_BYTES[True]
        if error := next(answers):
            raise error

    monkeypatch.setattr(bench_module, "require_memory", room)
    assert Bench(library, SMALL, True).pools[-1].size == 1 << 18


@pytest.mark.needs_compiler
def test_too_little_memory_for_the_smallest_arrays_is_one_message(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    rationed(monkeypatch, 1000)
    with pytest.raises(RidgelineError, match=f"no memory for {1 << 16}"):
        Bench(library, SMALL, True)


@pytest.mark.needs_compiler
@pytest.mark.needs_machine
@pytest.mark.usefixtures("brief", "cache")
def test_what_there_is_no_memory_for_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise NoMemory("no memory for it")

    monkeypatch.setattr(Pool, "chain", refuse)
    monkeypatch.setattr(cpu, "require_memory", refuse)
    items = cpu.measure(SMALL, quick=True)
    assert not any(each.target.startswith("latency") or each.settings["mix"] == "gemm" for each in items)
    assert "not measured: library GEMM (no memory for it)" in items[0].notes
    assert sum(note.startswith("not measured: latency") for note in items[0].notes) == 4


def test_no_room_is_told_without_taking_it() -> None:
    bench_module.require_memory(1 << 20)
    with pytest.raises(NoMemory, match="no memory for 4,194,304 TiB"):
        bench_module.require_memory(1 << 62)


@pytest.mark.needs_compiler
@pytest.mark.needs_machine
def test_every_probe_of_a_tiny_machine_runs(bench: Bench) -> None:
    probes = [probe for group in ceilings.groups(bench) if group.required for probe in group.probes()]
    names = [probe.name for probe in probes]
    assert len(names) == len(set(names))
    targets = {probe.target for probe in probes}
    assert targets >= {
        "l1",
        "l2",
        "l3",
        "memory",
        "vector.fp64",
        "vector.fp32",
        "latency.l1",
        "latency.memory",
        "clock",
    }
    run = interleave(probes, 1, min_seconds=1e-5, warm_seconds=0.0)
    assert not run.partial
    for row in run.series:
        probe = row.probe
        assert probe.settings["threads"] >= 1
        assert row.samples[0] > 0
        if probe.settings["mix"] in ceilings.MIXES:
            assert 0 < probe.work.bytes <= probe.settings["bytes"]
            assert any("write-allocate" in note for note in probe.notes) == (probe.settings["mix"] != "read")


@pytest.mark.needs_compiler
def test_points_between_levels_belong_to_none(bench: Bench) -> None:
    targets = {
        size: ceilings.stream(bench, "read", bench.pools[0], size).target
        for size in (2048, 8192, 20480, 32768, 1 << 19)
    }
    assert targets == {2048: "l1", 8192: "sweep.l2", 20480: "l2", 32768: "sweep.l3", 1 << 19: "memory"}


class Settling:
    """A pool whose cache serves a kernel slowly until it has passed over it a few times; the clock is simulated."""

    threads, size = 1, 1 << 19

    def __init__(self, rates: dict[str, float], passes: int) -> None:
        self.rates, self.passes = rates, passes
        self.seen: dict[str, int] = {}

    def touched(self, kernel: Kernel, size: int) -> int:
        return size

    def run(self, kernel: Kernel, size: int, reps: int = 1, warm: int = 0) -> Timing:
        done = self.seen.get(kernel.isa, 0) + warm
        self.seen = {kernel.isa: done + reps}  # another kernel's passes push this one's lines out
        slow = min(reps, max(0, self.passes - done))
        return Timing((reps + 9 * slow) * size / self.rates[kernel.isa], 1.0)


def variants(*names: str) -> list[Kernel]:
    return [Kernel(place, "stream", "read", name, "fp64", "vector", 1, 0, 0, 0.0) for place, name in enumerate(names)]


@pytest.mark.parametrize("quick", [True, False])
def test_the_fastest_variant_is_found_in_a_cache_that_settles_slowly(quick: bool) -> None:
    bench = Bench.__new__(Bench)
    bench.machine, bench.quick = SMALL, quick
    rates = {"sse2": 1.0e8, "avx2": 1.15e8, "avx512": 1.2e8, "scalar": 0.3e8}
    for order in (("sse2", "avx2", "avx512", "scalar"), ("avx512", "scalar", "avx2", "sse2")):
        pool = Settling(rates, passes=1)
        assert bench.fastest(variants(*order), pool, 65536).isa == "avx512"  # type: ignore[arg-type]


def test_of_variants_alike_the_one_that_only_loads_is_taken() -> None:
    bench = Bench.__new__(Bench)
    bench.machine, bench.quick = SMALL, True
    alike = {"avx512": 1.01e8, "avx512+loads": 1.0e8}
    assert bench.fastest(variants(*alike), Settling(alike, 0), 65536).isa == "avx512+loads"  # type: ignore[arg-type]
    apart = {"avx512": 1.05e8, "avx512+loads": 1.0e8}
    assert bench.fastest(variants(*apart), Settling(apart, 0), 65536).isa == "avx512"  # type: ignore[arg-type]


@pytest.mark.needs_compiler
def test_a_cache_is_passed_over_before_it_is_timed_and_memory_is_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, warm = bench.pools[0], []
    run = pool.run
    monkeypatch.setattr(
        pool, "run", lambda kernel, size, reps, passes, offset=0: warm.append(passes) or run(kernel, size, reps)
    )
    for size in (65536, 1 << 19):
        probe = ceilings.stream(bench, "read", pool, size)
        warm.clear()
        probe.call(1)
        assert warm == [bench_module.WARM_PASSES if size == 65536 else 0]


def test_library_products_are_checked() -> None:
    products = cpu_gemm.numpy_gemms(caches(4096), True, [1])
    small = [probe for probe in products if probe.settings["size"] == 512]
    assert {probe.target for probe in small} == {"vector.fp64", "vector.fp32"}
    for probe in small:
        probe.call(1)
        assert probe.check is not None
        probe.check()
        assert probe.work.flops == 2.0 * 512**3
    a = np.eye(8)
    with pytest.raises(RidgelineError, match="gemm numpy"):
        cpu_gemm._check_numpy("gemm numpy fp64 8", a, a, a + 1, 1e-9)


def two_threads(monkeypatch: pytest.MonkeyPatch, process: float, waits: tuple[float | None, float | None]) -> Timing:
    """A product of 0.1 s on two threads that ran for `process` seconds, with what the system says of their waiting."""
    told, wall, ran = iter(waits), iter([7.0, 7.1]), iter([3.0, 3.0 + process])
    clocks = {"perf_counter": lambda: next(wall), "process_time": lambda: next(ran), "thread_time": lambda: 0.0}
    monkeypatch.setattr(cpu_gemm, "time", SimpleNamespace(**clocks))
    monkeypatch.setattr(cpu_gemm, "waited", lambda: next(told))
    timing = cpu_gemm._with_threads(lambda count: None, 2, lambda: None, 2)
    assert timing.seconds == pytest.approx(0.1)
    return timing


def test_a_product_on_several_cores_sees_that_others_had_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its two threads together waited 60 ms for their cores while it took 100 ms."""
    assert two_threads(monkeypatch, 0.05, (5.0, 5.06)).busy == pytest.approx(1 - 0.06 / 0.2)


def test_threads_that_a_library_leaves_idle_are_no_disturbance(monkeypatch: pytest.MonkeyPatch) -> None:
    assert two_threads(monkeypatch, 0.1, (5.0, 5.0)).busy == 1.0


def test_a_product_whose_threads_nobody_watches_is_judged_by_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert two_threads(monkeypatch, 0.05, (None, None)).busy == pytest.approx(0.25)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells how long threads wait")
def test_waiting_for_a_core_only_grows() -> None:
    """In a process with one thread: where threads end, their waiting is no longer counted."""
    script = "from ridgeline.measure.conditions import waited; print(waited(), waited())"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    if "None" not in told:  # a kernel may be built without it
        first, second = map(float, told)
        assert 0 <= first <= second < 1e6


def test_products_that_take_too_long_are_left_out_and_named() -> None:
    class Steps:
        time = 0.0

        def now(self) -> float:
            return self.time

    clock = Steps()

    def product(size: int) -> Probe:
        def call(loops: int) -> None:
            clock.time += loops * size**3 * 1e-9

        settings = {"library": "x", "dtype": "fp64", "threads": 1, "size": size}
        return Probe(f"gemm {size}", "vector.fp64", call, settings=settings)

    kept, left = cpu_gemm.within([product(size) for size in (100, 1000, 2000)], 2.0, clock)
    assert [probe.name for probe in kept] == ["gemm 100", "gemm 1000"]
    assert left == ["gemm 2000"]


# -- no compiler, a bad one, no room ---------------------------------------------------------------------------------


def test_without_a_compiler_one_message_says_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(building.BuildError, match=r"no C compiler found \(looked for cc, gcc, clang\).*Install one"):
        building.build()


@pytest.mark.needs_machine
@pytest.mark.usefixtures("brief", "cache")
def test_without_a_compiler_numpy_probes_call_themselves_lower_bounds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    tiny(monkeypatch, 1 << 20)
    machine = caches(1 << 14, 1 << 18, cores=len(cores()[:2]))
    items = cpu.measure(machine, quick=True)
    measured = [each for each in items if each.settings["mix"] != "gemm"]
    assert {each.settings["mix"] for each in measured} == set(MIXES)
    assert all(any("no C compiler" in note for note in of_kind(each.notes, LOWER_BOUND)) for each in measured)
    assert {each.target for each in items} >= {"l2", "memory", "vector.fp64"}
    (left,) = [note for note in of_kind(items[0].notes, NOT_MEASURED) if "no C compiler" in note]
    assert left.endswith("l1, latency, FMA peaks, core clock")
    made = measured_machine(items, machine)
    assert any(note.startswith("vector.fp64, vector.fp32: peak taken from the library GEMM") for note in made.notes)
    assert made.main.bandwidth.measured  # a roofline needs it, whoever measured it
    assert set(made.main.mixes) == set(MIXES)
    assert len([note for note in made.notes if note.startswith("lower bound") and "no C compiler" in note]) == 1


@pytest.mark.needs_compiler
def test_a_compiler_that_fails_is_quoted(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", fake_compiler(tmp_path, "echo 'x.c:1: error: no such instruction' >&2; exit 1"))
    with pytest.raises(
        building.BuildError, match=r"fakecc 1\.0\) cannot compile the probes: x\.c:1: error: no such instruction"
    ):
        building.build()
    assert not list((cache / "ridgeline" / "kernels").glob("*"))  # nothing half-made stays


@pytest.mark.needs_compiler
def test_a_killed_compiler_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", fake_compiler(tmp_path, "kill -9 $$"))
    with pytest.raises(building.BuildError, match=f"killed by signal {int(signal.SIGKILL)}"):
        building.build()
    assert not list((cache / "ridgeline" / "kernels").glob("*"))


@pytest.mark.needs_compiler
def test_a_compiler_that_hangs_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And not waited for again, neither with other flags nor by who asks next."""
    monkeypatch.setenv("CC", fake_compiler(tmp_path, "exit 1"))
    calls: list[list[str]] = []
    run = subprocess.run

    def hang(command: list[str], **options: Any) -> Any:
        if "--version" in command:
            return run(command, **options)
        calls.append(command)
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(building.subprocess, "run", hang)
    for _ in range(2):
        with pytest.raises(building.BuildError, match=r"did not finish within 120 s\. Set CC to another one"):
            building.build()
    assert len(calls) == 1


@pytest.mark.needs_compiler
@pytest.mark.parametrize("asked", ["/nope/cc -m64", "'unclosed"])
def test_a_compiler_that_is_not_there_is_named_beside_the_one_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv("CC", asked)
    (told,) = building.build().notes
    assert told.kind == CONDITIONS
    assert told.startswith(f"compiled without the compiler asked for: $CC names '{asked}'")
    assert shutil.which("cc") is None or told.endswith(f"so {shutil.which('cc')} was used")


@pytest.mark.needs_compiler
def test_a_compiler_that_does_not_know_this_cpu_still_serves(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = building.compiler()[0][0]
    script = f'for word in "$@"; do case "$word" in -m*=native) echo "error: unknown CPU" >&2; exit 1;; esac; done\nexec {real} "$@"'
    monkeypatch.setenv("CC", fake_compiler(tmp_path, script))
    built = building.build()
    assert building.native() not in built.flags
    assert any("compiled without" in note for note in built.notes)
    assert Library(built).kernels


@pytest.mark.needs_compiler
def test_the_library_is_kept_and_found_again(cache: Path) -> None:
    first = building.build()
    changed = first.file.stat().st_mtime_ns
    assert first.file.is_relative_to(cache)
    assert building.build().file == first.file
    assert first.file.stat().st_mtime_ns == changed
    assert {path.name for path in first.file.parent.iterdir()} == {first.file.name, first.file.stem + ".sha256"}


@pytest.mark.needs_compiler
def test_a_damaged_library_is_made_again(cache: Path) -> None:
    file = building.cache_folder() / "unused"
    file.parent.mkdir(parents=True)
    built = building.build()
    name = built.file.with_suffix(".broken")
    shutil.copy(built.file, name)
    # a new inode, because the loader keeps files it knows
    built.file.unlink()
    built.file.write_bytes(name.read_bytes()[:1000])
    assert Library(building.build()).kernels


@pytest.mark.needs_compiler
def test_an_unwritable_cache_folder_is_gone_round(cache: Path, tmp_path: Path) -> None:
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where the folder should be", encoding="ascii")
    built = building.build()
    assert not built.file.is_relative_to(cache)
    assert any("for this run only" in note for note in built.notes)
    assert stat.S_IMODE(os.stat(built.file.parent).st_mode) == 0o700


@pytest.mark.needs_compiler
def test_a_full_disk_is_gone_round_and_named(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = building.compiler()[0][0]
    script = f'case "$*" in *{cache}*) echo "fatal error: error writing to /x.s: No space left on device" >&2; exit 1;; esac\nexec {real} "$@"'
    monkeypatch.setenv("CC", fake_compiler(tmp_path, script))
    built = building.build()
    assert any("No space left on device" in note for note in built.notes)


@pytest.mark.needs_compiler
def test_no_room_anywhere_is_one_message(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", fake_compiler(tmp_path, 'echo "No space left on device" >&2; exit 1'))
    with pytest.raises(building.BuildError, match=r"written nowhere: .*No space left on device.*Free some space"):
        building.build()


# -- levels ---------------------------------------------------------------------------------------------------------


def reads(*points: tuple[float, float]) -> list[Observation]:
    """A read sweep of (bytes, B/s)."""
    return [
        Observation(
            f"read {size}",
            "l1",
            (size / rate,),
            ceilings.stream_work("read", 1, 0, 0, size),
            {"mix": "read", "bytes": size, "threads": 1},
        )
        for size, rate in points
    ]


def staircase(*steps: tuple[float, float], last: float = 2**27) -> list[Observation]:
    """Bandwidth by level: (capacity, rate) steps, with the slow start of small loops and a soft edge."""
    points = []
    size = 1024.0
    while size <= last:
        rate = next(rate for capacity, rate in steps if size <= capacity)
        points.append((size, rate * size / (size + 64)))
        size *= 2**0.5
    return reads(*points)


def test_levels_are_found_from_the_sweep_alone() -> None:
    items = cpu_levels.levels(staircase((2**15, 100e9 / 8), (2**20, 50e9 / 8), (2**25, 20e9 / 8), (2**40, 10e9 / 8)))
    assert [row.bandwidth for row in items] == pytest.approx([12.5e9, 6.25e9, 2.5e9, 1.25e9], rel=0.01)
    assert [round(np.log2(row.capacity)) for row in items[:-1] if row.capacity] == [15, 20, 25]
    assert items[-1].capacity is None


def test_levels_that_agree_with_the_reported_caches_get_their_names() -> None:
    machine = caches(2.0**15, 2.0**20, 2.0**25)
    items = cpu_levels.levels(staircase((2**15, 8e9), (2**20, 5e9), (2**25, 3e9), (2**40, 1e9)), machine)
    assert [row.level for row in items] == ["l1", "l2", "l3", "memory"]
    assert not any(row.note for row in items)


def test_a_cache_smaller_than_reported_is_a_note() -> None:
    machine = caches(2.0**15, 2.0**20, 2.0**25)
    seen = staircase((2**15, 8e9), (2**20, 5e9), (2**22, 3e9), (2**40, 1e9))
    items = cpu_levels.levels(seen, machine)
    assert any("l3 ends at about" in row.note and "reports 32 MiB" in row.note for row in items)
    assert any("l3 ends at" in note for each in cpu_levels.with_plateau_notes(seen, machine) for note in each.notes)


def test_a_cache_without_a_plateau_is_a_note() -> None:
    machine = caches(2.0**15, 2.0**20, 2.0**25)
    seen = staircase((2**20, 8e9), (2**25, 3e9), (2**40, 1e9))
    notes = {note for each in cpu_levels.with_plateau_notes(seen, machine) for note in each.notes}
    assert any("l1" in note and "no plateau" in note for note in notes) or any("l2" in note for note in notes)


def test_without_reported_caches_a_note_tells_the_plateaus() -> None:
    machine = Machine("m", kind="cpu", levels=(Level("memory", Figure("B/s"), Figure("B")),))
    seen = staircase((2**15, 8e9), (2**20, 5e9), (2**40, 1e9))
    (told,) = {note for each in cpu_levels.with_plateau_notes(seen, machine) for note in each.notes}
    assert told.startswith("read sweep on one core: 7.98 GB/s up to about ")
    assert re.search(r"5 GB/s up to about \S+ (KiB|MiB), 1 GB/s beyond; the system reports no caches", told)
    assert not any(each.notes for each in cpu_levels.with_plateau_notes(staircase((2**40, 1e9)), machine))


def test_too_few_points_give_no_levels() -> None:
    assert cpu_levels.levels(reads((1024, 1e9), (2048, 1e9))) == []


def test_zones_keep_clear_of_the_edges() -> None:
    machine = caches(2.0**15, 2.0**20, 2.0**25, cores=4)
    one = cpu_levels.zones(machine, 1, 2.0**27)
    assert [zone.name for zone in one] == ["l1", "l2", "l3", "memory"]
    for inner, outer in pairwise(one):
        assert inner.last < outer.first
        assert inner.holds(inner.middle)
    four = cpu_levels.zones(machine, 4, 2.0**25)
    assert four[1].last == one[1].last  # a private cache serves each thread whole
    assert four[2].last == pytest.approx(one[2].last / 4)  # a shared one is divided


# -- what a library reaches of a peak ------------------------------------------------------------------------------------


def rated(rate: float, threads: int, busy: float | None = None, library: str = "", samples: int = 1) -> Observation:
    settings = {"threads": threads, **({"library": library} if library else {})}
    disturbed = {} if busy is None else {"stand_in_busy": busy}
    work = Work(counts={("vector", "fp32", "fma"): rate})
    return Observation(f"{rate} {threads}", "vector.fp32", (1.0,) * samples, work, settings, disturbed)


def reached(*observations: Observation) -> Figure:
    return measured_machine(observations, caches(8192, cores=2)).efficiency["gemm.vector.fp32"]


def test_a_library_is_held_to_the_peak_on_as_many_cores() -> None:
    """36 of 40 on one core and 76 of 80 on two: 95 % on all cores, and never 36 of 80."""
    one, two = (rated(40e9, 1), rated(36e9, 1, library="BLAS")), (rated(80e9, 2), rated(76e9, 2, library="BLAS"))
    assert reached(*one, *two).measured == pytest.approx(0.95)
    assert "95 % of the measured vector.fp32 peak, both on 2 cores (spread 1 %)" in reached(*one, *two).measurement
    assert reached(*one, rated(80e9, 2)).measured == pytest.approx(0.9)


def test_cores_without_preemption_decide_what_a_library_reaches() -> None:
    calm = (rated(40e9, 1), rated(36e9, 1, library="BLAS"))
    held = (rated(80e9, 2), rated(34e9, 2, busy=0.5, library="BLAS"))
    assert reached(*calm, *held).measured == pytest.approx(0.9)
    assert "both on 1 core" in reached(*calm, *held).measurement
    # 34 in half of the time are 68 of 80
    assert reached(*held).measured == pytest.approx(0.85)
    assert "noisy: estimated from preempted samples" in reached(*held).measurement
    # 18 in half of the time are 36 of 40, and one core is the better witness
    assert reached(rated(40e9, 1), rated(18e9, 1, busy=0.5, library="BLAS"), *held).measured == pytest.approx(0.9)


def test_a_peak_that_is_the_product_itself_is_called_so() -> None:
    alone = measured_machine([rated(36e9, 2, library="BLAS")], caches(8192, cores=2))
    assert any("vector.fp32: peak taken from the library GEMM" in note for note in alone.notes)
    both = measured_machine([rated(36e9, 2, library="BLAS"), rated(35e9, 2)], caches(8192, cores=2))
    assert not any("library GEMM" in note for note in both.notes)


# -- what is said about a result ----------------------------------------------------------------------------------------


def test_a_second_load_is_named_in_the_notes() -> None:
    assert conditions.second_load({"others_busy": 1.2}) == "loaded machine: other processes used 1.2 CPUs on average"
    assert conditions.second_load({"stolen": 0.4}) == "loaded machine: steal time 0.4 CPUs on average"
    assert conditions.second_load({"others_busy": 0.02, "stolen": 0.0}) == ""


def test_conditions_are_plain_and_complete() -> None:
    import json

    told = conditions.cpu_conditions("a CPU", True, "gcc 12", "-O3")
    assert {"date", "cpu", "pinned", "compiler", "flags", "python", "numpy", "data"} <= told.keys()
    assert told["date"].endswith("+00:00")
    assert json.loads(json.dumps(told)) == told
    assert {"load_after"} <= conditions.Watch().conditions().keys() or not hasattr(os, "getloadavg")


@pytest.mark.needs_compiler
@pytest.mark.needs_machine
@pytest.mark.usefixtures("brief", "cache")
def test_a_measurement_and_its_documents() -> None:
    seen: list[int] = []
    items = cpu.measure(SMALL, quick=True, on_progress=lambda done, total, label: seen.append(done * 1000 // total))
    assert seen == sorted(seen)
    assert seen[-1] == 1000
    assert {each.target for each in items} >= {"l1", "l2", "l3", "memory", "vector.fp64", "latency.l1"}
    for each in items:
        again = from_document(to_document(each))
        assert again.samples == each.samples
        assert again.conditions["compiler"]
        assert again.conditions["clock_measured"]


@pytest.mark.needs_compiler
@pytest.mark.needs_machine
@pytest.mark.usefixtures("brief", "cache")
def test_ctrl_c_in_the_middle_returns_what_was_measured() -> None:
    def stop(done: int, total: int, label: str) -> None:
        if done * 10 > total * 4:
            raise KeyboardInterrupt

    items = cpu.measure(SMALL, quick=True, on_progress=stop)
    assert items
    assert any("stopped by Ctrl-C" in note for note in of_kind(items[0].notes, NOT_MEASURED))
    assert cpu.stopped(items)
    assert all(any("stopped early" in note for note in of_kind(each.notes, STOPPED)) for each in items)


@pytest.mark.needs_compiler
def test_variants_near_the_fastest_are_all_measured_at_the_memory(bench: Bench) -> None:
    pool = bench.pools[-1]
    three = [*bench.library.streams("scale")[:2], bench.library.streams("copy_nt")[0]]
    bench.variants["scale", "memory", pool.threads] = three
    first = ceilings.memory_streams(bench, pool, ["scale"], slice(0, 2))
    others = ceilings.memory_streams(bench, pool, ["scale"], slice(2, None))
    assert [probe.settings["isa"] for probe in (*first, *others)] == [kernel.isa for kernel in three]
    assert [probe.settings["stores"] for probe in (*first, *others)] == ["plain", "plain", "streaming"]
    assert {probe.settings["mix"] for probe in (*first, *others)} == {"scale"}
    assert len({probe.name for probe in (*first, *others)}) == 3


@pytest.mark.needs_compiler
def test_what_is_measured_comes_by_its_value(bench: Bench) -> None:
    """All cores before one, memory and FMA peaks before anything else, library products last in a quick run."""
    names = [group.name for group in ceilings.groups(bench)]
    required = [group.name for group in ceilings.groups(bench) if group.required]
    assert required == ["memory bandwidth", "FMA peaks", "cache bandwidth", "latency", "core clock"]
    assert names[: len(required)] == required
    if len(bench.pools) > 1:
        assert names[len(required)] == "single-core bandwidth"
    threads = {group.name: {probe.settings["threads"] for probe in group.probes()} for group in ceilings.groups(bench)}
    everyone = bench.pools[-1].threads
    assert all(threads[name] == {everyone} for name in required if name != "latency")


@pytest.mark.needs_compiler
def test_the_peaks_that_are_required_are_of_every_format_once(bench: Bench) -> None:
    formats = {f"{kernel.engine}.{kernel.dtype}" for kernel in bench.library.kernels if kernel.kind == "fma"}
    targets = [probe.target for probe in ceilings.peaks(bench, bench.pools[-1])]
    assert sorted(targets) == sorted(formats)


@pytest.mark.needs_compiler
@pytest.mark.needs_machine
@pytest.mark.usefixtures("brief", "cache")
def test_without_any_time_all_that_is_required_is_measured_and_one_line_names_the_rest() -> None:
    items = cpu.measure(SMALL, quick=True, budget=0.0)
    assert {each.target for each in items} >= {"l1", "l2", "l3", "memory", "vector.fp64", "latency.memory", "clock"}
    (missing,) = {note for each in items for note in of_kind(each.notes, NOT_MEASURED)}
    assert missing.startswith("not measured (0 s budget): ")
    assert missing.endswith("library GEMM")
    assert "memory bandwidth" not in missing


@pytest.mark.needs_compiler
def test_streaming_stores_are_ranked_at_the_main_memory_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    considered: list[set[str]] = []

    def leaders(kernels: list[Kernel], pool: Pool, size: int = 0) -> list[Kernel]:
        considered.append({kernel.op for kernel in kernels})
        return list(kernels)

    monkeypatch.setattr(bench, "leaders", leaders)
    monkeypatch.setattr(bench, "variants", {})
    pool = bench.pools[-1]
    for zone in bench.zones(pool):
        bench.ranked("copy", zone, pool)
    *caches, memory = considered
    assert memory == {"copy", "copy_nt"}
    assert all(ops == {"copy"} for ops in caches)
