"""Laws of expected times, checked on generated cases over every machine, op, dtype and backend.

    python benchmarks/laws.py [CASES] [--seed N] [--show N] [--machine NAME] [--op NAME ...]

A case is one op with sizes on one machine, and the same op with one size grown at equal alignment. Counted are violations of

    order       stated floor <= low <= time <= high
    items       the items sum to the time; none of the work itself implies a rate above a stated ceiling
    growth      a larger size never takes less time; of kernels that were timed on this machine it may, by no more than the width of
                the interval, and the answer names the switch
    hardware    more bandwidth, more compute, a faster clock never slow
    bytes       narrower weights or a narrower cache never slow the kernels of one library
    algebra     work.repeat(n) takes n times as long, a + b the sum
    labels      calibrated only with timings of this machine, of the same op, dtypes and backend
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ridgeline as rl
from ridgeline.core.errors import RidgelineError
from ridgeline.core.figure import Figure
from ridgeline.core.machine import Machine
from ridgeline.machines.files import names
from ridgeline.machines.libraries import known
from ridgeline.prediction.coefficients import timed_backend
from ridgeline.prediction.expected import Expected
from ridgeline.prediction.predict import Prediction, predict
from ridgeline.programs.ops import OPS, Op

PER_CALL = 100  # cases of one op, machine, dtype and backend
ROUNDING = 1e-9
ALIGNMENT = 256  # growing by multiples of it keeps every alignment class, down to half a byte on a line of 128
FASTER = 1.3
DTYPES = ("bf16", "fp16", "fp32", "fp64", "tf32", "fp8_e4m3", "int8")
STORED = ("int4_g128", "int4_g32z", "int8", "fp8_e4m3", "bf16")
TIMED_SHARE = 0.3  # of the calls, that are on the machine with most timings of its own: only there do kernels switch as libraries do
GROWN = ("n", "m", "k", "batch", "rows", "cols", "in_features", "out_features", "heads", "seq_q", "seq_kv", "head_dim",
         "window", "c_in", "c_out", "h", "w", "vocab", "tokens", "topk", "hidden", "inter", "bytes")  # fmt: skip
MAX_SIZE = {
    **{
        "n": 24,
        "m": 14,
        "k": 14,
        "batch": 8,
        "rows": 16,
        "cols": 16,
        "in_features": 15,
        "out_features": 15,
        "heads": 6,
    },
    **{"seq_q": 14, "seq_kv": 15, "head_dim": 8, "window": 12, "c_in": 10, "c_out": 10, "h": 8, "w": 8, "vocab": 17},
    **{"tokens": 13, "topk": 3, "experts": 8, "hidden": 13, "inter": 13, "bytes": 30, "ranks": 6, "kv_heads": 5},
}  # of a size, as a power of two
VECTORS = ("blas1", "elementwise")  # categories whose `n` counts elements; elsewhere it is a side of a matrix

Arrays = dict[str, Any]


@dataclass
class Count:
    cases: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    worst: dict[str, list[tuple[float, str]]] = field(default_factory=dict)

    def check(self, law: str, holds: Any, by: Any, call: Call) -> None:
        """`by` is how far a case is off, to show the worst."""
        holds, by = np.broadcast_to(holds, PER_CALL), np.broadcast_to(by, PER_CALL)
        self.checks[law] += PER_CALL
        bad = np.flatnonzero(~holds)
        if len(bad):
            self.violations[law] += len(bad)
            worst = int(bad[np.argmax(np.abs(np.asarray(by)[bad]))])
            self.worst.setdefault(law, []).append((float(by[worst]), call.text(worst)))


@dataclass(frozen=True)
class Call:
    machine: Machine
    op: Op
    words: Mapping[str, str]
    sizes: Arrays
    backend: str | None = None
    grown: str = ""

    def predict(self, machine: Machine | None = None, sizes: Arrays | None = None) -> Prediction:
        values = self.sizes if sizes is None else sizes
        return predict(self.op(**values, **self.words), machine or self.machine, backend=self.backend)

    def text(self, place: int) -> str:
        def at(value: Any) -> str:
            return f"{float(np.broadcast_to(value, PER_CALL)[place]):g}"

        sizes = " ".join(f"{name}={at(value)}" for name, value in self.sizes.items())
        words = " ".join(f"{name}={value}" for name, value in self.words.items())
        backend = f" backend={self.backend}" if self.backend else ""
        return (
            f"{self.op.name} {sizes} {words} on {self.machine.name}{backend}{f'; {self.grown}' if self.grown else ''}"
        )


def drawn(random: np.random.Generator, op: Op) -> tuple[Arrays, dict[str, str]]:
    """Sizes that fit each other, and words; half of the sizes are multiples of 64."""
    sizes: Arrays = {}
    for name, param in op.params.items():
        if param.kind == "Size" and (
            param.required or (name in ("seq_kv", "kv_heads", "window") and random.random() < 0.5)
        ):
            sizes[name] = _size(random, op, name)
        elif param.kind == "Flag":
            sizes[name] = float(random.random() < 0.5)
    _fitted_together(random, op, sizes)
    words = {}
    for name, param in op.params.items():
        if name == "dtype":
            words[name] = str(random.choice(DTYPES, p=(0.4, 0.15, 0.2, 0.05, 0.05, 0.1, 0.05)))
        elif name in ("weights", "kv") and random.random() < 0.4:
            words[name] = str(random.choice(STORED))
        elif param.kind == "Choice" and name in ("layout", "variant") and random.random() < 0.5:
            words[name] = str(random.choice(param.choices))
    return sizes, words


def _size(random: np.random.Generator, op: Op, name: str) -> NDArray[np.float64]:
    most = MAX_SIZE.get(name, 4)
    if name == "n" and op.category not in VECTORS and len([p for p in op.params.values() if p.required]) > 1:
        most = MAX_SIZE["m"]
    values = np.exp2(random.uniform(0, most, PER_CALL))
    if random.random() < 0.5 and most > 7:
        values = np.ceil(values / ALIGNMENT) * ALIGNMENT
    return np.ceil(values)


def _fitted_together(random: np.random.Generator, op: Op, sizes: Arrays) -> None:
    if "kv_heads" in sizes:
        sizes["heads"] = sizes["kv_heads"] * 2.0 ** random.integers(0, 4)
    if "window" in sizes:
        sizes["causal"] = 1.0
    if op.name == "attention" and random.random() < 0.3:
        sizes["seq_q"] = np.ones(PER_CALL)
        sizes.pop("window", None)
    if "seq_kv" in sizes and sizes.get("causal"):
        sizes["seq_kv"] = np.maximum(sizes["seq_kv"], sizes["seq_q"])
    if op.name.startswith("conv"):
        sizes["kernel"] = float(random.choice((1, 3, 3, 5, 7)))
        sizes["stride"] = float(random.choice((1, 1, 2)))
        sizes["h"], sizes["w"] = (np.maximum(sizes[side], 8.0) for side in "hw")
        if random.random() < 0.2 and op.name == "conv2d":
            sizes["c_out"] = sizes["groups"] = sizes["c_in"]
    if "topk" in sizes:
        sizes["experts"] = np.maximum(sizes["experts"], 8 * sizes["topk"])
    if op.name == "topk":
        sizes["k"] = np.minimum(sizes["k"], sizes["cols"])
    if "ranks" in sizes:
        sizes["ranks"] = np.maximum(sizes["ranks"], 2.0)


def enlarged(random: np.random.Generator, call: Call) -> Call | None:
    """The same call with one size grown at equal alignment; None where it has none to grow."""
    able = [name for name in GROWN if name in call.sizes and np.ndim(call.sizes[name])]
    if "groups" in call.sizes:
        able = [name for name in able if name not in ("c_in", "c_out")]
    if call.op.name == "topk":
        able = [name for name in able if name != "k"]
    if not able:
        return None
    name = str(random.choice(able))
    before = call.sizes[name]
    more = np.ceil(before * np.exp2(random.uniform(-6, 2, PER_CALL)) / ALIGNMENT) * ALIGNMENT
    sizes = {**call.sizes, name: before + more}
    if name == "seq_q" and "seq_kv" in sizes and sizes.get("causal"):
        sizes["seq_kv"] = sizes["seq_kv"] + more
    if name == "heads" and "kv_heads" in sizes:
        sizes["heads"] = before * 2
    if name == "topk":
        sizes["topk"] = before + 1
        sizes["experts"] = call.sizes["experts"]
    return replace(call, sizes=sizes, grown=f"{name} grown")


def faster(machine: Machine, what: str) -> Machine:
    """A machine with more bandwidth, compute or clock."""

    def times(figure: Figure) -> Figure:
        kinds = {kind: getattr(figure, kind) for kind in ("stated", "derived", "measured", "sustained")}
        return replace(figure, **{kind: value * FASTER for kind, value in kinds.items() if value is not None})

    if what != "bandwidth":
        machine = replace(machine, peaks={name: times(figure) for name, figure in machine.peaks.items()})
    if what == "bandwidth":
        outer = machine.main
        mixes = {name: times(figure) for name, figure in outer.mixes.items()}
        outer = replace(outer, bandwidth=times(outer.bandwidth), mixes=mixes)
        machine = replace(machine, levels=(*machine.levels[:-1], outer))
    if what == "clock":
        levels = tuple(replace(level, bandwidth=times(level.bandwidth)) for level in machine.levels[:-1])
        machine = replace(machine, levels=(*levels, machine.main))
        machine = replace(machine, clocks={name: times(figure) for name, figure in machine.clocks.items()})
    return machine


def labels(prediction: Prediction) -> NDArray[np.str_]:
    return np.broadcast_to(np.asarray(prediction.expected[0].label), PER_CALL)


def timed_here(prediction: Prediction) -> NDArray[np.bool_]:
    return np.broadcast_to(np.asarray(prediction.expected[0].timed) > 0, PER_CALL)


def check(count: Count, call: Call, random: np.random.Generator) -> None:
    base = call.predict()
    expected, bound = base.expected[0], base.bounds[0]
    time, low, high = (np.broadcast_to(value, PER_CALL) for value in (base.time, base.low, base.high))
    near = 1 + ROUNDING
    count.check("order", np.isfinite(time) & (time > 0), 0.0, call)
    count.check("order", bound.stated_floor <= low * near, bound.stated_floor / low, call)
    count.check("order", (low <= time * near) & (time <= high * near), time / high, call)
    items = expected.items()
    total = sum(np.broadcast_to(item.seconds, PER_CALL) for item in items)
    count.check("items", np.abs(total / time - 1) < 1e-6, total / time, call)
    main = sum(np.broadcast_to(item.seconds, PER_CALL) for item in items if item.kind == "main")
    count.check("items", main * (1 + 1e-6) >= bound.stated_floor, bound.stated_floor / np.maximum(main, 1e-300), call)
    larger = enlarged(random, call)
    if larger is not None:
        _check_growth(count, base, larger)
    for what in ("bandwidth", "compute", "clock"):
        other = call.predict(faster(call.machine, what))
        count.check("hardware", other.time <= time * near, other.time / time, replace(call, grown=f"{what} x{FASTER}"))
    _check_bytes(count, call)
    times = int(random.integers(2, 9))
    again = predict(base.work.repeat(times), call.machine, backend=call.backend).time / time / times
    count.check("algebra", np.abs(again - 1) < ROUNDING, again, replace(call, grown=f"repeated {times} times"))
    twice = predict(base.work + base.work, call.machine, backend=call.backend).time / time / 2
    count.check("algebra", np.abs(twice - 1) < ROUNDING, twice, replace(call, grown="added to itself"))
    count.check("labels", (labels(base) != "calibrated") | _timed(call, expected), 0.0, call)


def _timed(call: Call, expected: Expected) -> bool:
    """Whether the machine has timings of its own of every kernel's family, dtypes and backend."""
    own = {(key.family, key.dtype, key.backend) for key, fitted in call.machine.fitted.items() if not fitted.borrowed}

    def timed(family: str, dtype: str) -> bool:
        return (family, dtype, timed_backend(call.machine, call.backend, family)) in own

    return all(
        any(timed(family, kernel.kernel.dtype) for family in (kernel.kernel.family, "decode"))
        for kernel in expected.kernels
    )


def _check_bytes(count: Count, call: Call) -> None:
    for name, wider, narrower in (("weights", "int8", "int4_g128"), ("kv", "bf16", "fp8_e4m3"), ("kv", "fp16", "int8")):
        if name not in call.op.params or call.words.get("dtype") not in ("bf16", "fp16"):
            continue
        wide, narrow = (replace(call, words={**call.words, name: word}) for word in (wider, narrower))
        slow, fast = wide.predict(), narrow.predict()
        if [kernel.selected.fitted for kernel in slow.expected[0].kernels] != [
            kernel.selected.fitted for kernel in fast.expected[0].kernels
        ]:
            continue  # kernels of another library
        timed = timed_here(fast)
        narrow = replace(narrow, grown=f"{name} {wider} against {narrower}")
        count.check("bytes", (fast.time <= slow.time * (1 + ROUNDING)) | timed, fast.time / slow.time, narrow)


def _check_growth(count: Count, base: Prediction, larger: Call) -> None:
    grown = larger.predict()
    fall = np.broadcast_to(base.time - grown.time, PER_CALL)
    near, by_timings = ROUNDING * np.asarray(base.time), fallen_by_timings(base.expected[0], grown.expected[0])
    count.check("growth", fall <= near + by_timings, fall / base.time, larger)
    count.check("growth, timed", (fall <= near + base.high - base.low) | (by_timings == 0), fall / base.time, larger)


def fallen_by_timings(base: Expected, grown: Expected) -> Any:
    """Seconds by which kernels take less after growing, by timings of this machine; kernels without any fall by none."""
    pairs = zip(base.parts, grown.parts, strict=False)
    return sum(np.maximum(before - after, 0.0) * np.maximum(one, other) for (before, one), (after, other) in pairs)


def measured_cpu() -> Machine:
    """A CPU as `measure cpu` leaves it: every ceiling measured, the bandwidth by access mix."""
    machine = rl.machine("xeon-8480plus")

    def figure(stated: Figure, share: float) -> Figure:
        value = stated.value()
        return stated if value is None else replace(stated, measured=share * value, measurement="made up", spread=0.02)

    outer = machine.main
    shares = {"read": 0.7, "triad": 0.6, "copy": 0.65, "write": 1.05}
    mixes = {mix: figure(outer.bandwidth, share) for mix, share in shares.items()}
    outer = replace(outer, bandwidth=mixes["read"], mixes=mixes)
    peaks = {name: figure(peak, 0.8) for name, peak in machine.peaks.items()}
    return replace(machine, name="measured-cpu", peaks=peaks, levels=(*machine.levels[:-1], outer))


def own_timings(machine: Machine) -> int:
    return sum(not fitted.borrowed for fitted in machine.fitted.values())


def calls(random: np.random.Generator, machine: str = "", ops: Sequence[str] = ()) -> Iterator[Call]:
    machines = [rl.machine(machine)] if machine else [*(rl.machine(name) for name in names()), *[measured_cpu()] * 3]
    most_timed = max(machines, key=own_timings)
    chosen_ops = [OPS[name] for name in ops or OPS]
    while True:
        chosen = most_timed if random.random() < TIMED_SHARE else machines[random.integers(len(machines))]
        op = chosen_ops[random.integers(len(chosen_ops))]
        sizes, words = drawn(random, op)
        backends = sorted({key.backend for key in chosen.fitted if key.backend and known(key.backend).runs_on(chosen)})
        backend = str(random.choice(backends)) if backends and random.random() < 0.3 else None
        yield Call(chosen, op, words, sizes, backend)


def run(cases: int, seed: int, machine: str = "", ops: Sequence[str] = ()) -> tuple[Count, Counter[str]]:
    random, count, refused = np.random.default_rng(seed), Count(), Counter[str]()
    for call in calls(random, machine, ops):
        try:
            check(count, call, random)
        except RidgelineError as error:  # a format that the machine does not compute in, a machine without links
            refused[type(error).__name__] += PER_CALL
            continue
        count.cases += PER_CALL
        if count.cases >= cases:
            return count, refused
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=int, nargs="?", default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="worst cases of a law")
    parser.add_argument("--machine", default="", help="the only one, in place of all")
    parser.add_argument("--op", nargs="*", default=(), choices=sorted(OPS), metavar="NAME", help="the only ones")
    options = parser.parse_args()
    count, refused = run(options.cases, options.seed, options.machine, options.op)
    for law, checks in count.checks.items():
        print(f"{law:14s} {checks:10,} checks {count.violations[law]:8,} violations")
        for by, text in sorted(count.worst.get(law, []), key=lambda row: -abs(row[0]))[: options.show]:
            print(f"    {by:8.4g}  {text}")
    total = sum(count.violations.values())
    print(f"{count.cases:,} cases, {total:,} violations; {sum(refused.values()):,} refused ({dict(refused)})")


if __name__ == "__main__":
    main()
