"""The charts of a machine's own figures: peaks, memory, generations, and what was measured or lost of a stated figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ...core.errors import InputError
from ...core.machine import MAIN, Machine, positive
from ...core.units import show
from ...machines import files as catalog
from ...prediction.compare import default_dtype
from ..chart import LOG, Axis, Bar, Chart, Line, Panel, Picture, Point
from .plane import engine_for, is_integer, known_peak, level_title, power_span, rate, rate_unit, times, title_of


def peaks(machine: Machine, ceilings: str | None = None, sparse: bool = False) -> Chart:
    """Bars of the peak by precision on a log axis, with the factor over the fp64 and fp32 vector peaks."""
    values: dict[tuple[str, float], list[str]] = {}
    for key in machine.peaks:
        owner, _, name = key.partition(".")
        value = known_peak(machine, key, ceilings)
        if value is None or owner == "special" or (owner == "tensor-sparse" and not sparse):
            continue
        values.setdefault((owner, value), []).append(name)
    if not values:
        raise InputError(f"{machine.name} has no {ceilings or 'known'} peak to draw")
    base = {name: known_peak(machine, f"vector.{name}", ceilings) for name in ("fp64", "fp32")}
    bars = []
    for (owner, value), names in sorted(values.items(), key=lambda item: (item[0][1], item[0][0])):
        against = [f"{times(value / low)} {name}" for name, low in base.items() if low and value > low * 1.02]
        key = f"{owner}.{names[0]}" if names[0] else owner
        text = rate(value, key) + (f"   {' · '.join(against)}" if against else "")
        details = {f"times_{name}_vector": value / low for name, low in base.items() if low}
        bars.append(
            Bar(
                f"{', '.join(name for name in names if name)} {owner}".strip(),
                value,
                None,
                text,
                owner,
                "value",
                {"engine": owner, **details},
            )
        )
    biggest = max(bar.value for bar in bars)
    lowest = min(bar.value for bar in bars)
    known = [name for name, low in base.items() if low]
    notes = [
        f"factors are against the {' and '.join(known)} vector peak"
        if known
        else "no fp64 or fp32 vector peak to compare with",
        "dense peaks" if not sparse else "tensor-sparse: 2:4",
    ]
    span = (10 ** math.floor(math.log10(lowest / 2)), biggest * 1.3)
    unit = "OP/s" if all(is_integer(f"x.{bar.label.split()[0].rstrip(',')}") for bar in bars) else "FLOP/s"
    kinds = sorted(
        {
            machine.peak(f"{owner}.{names[0]}" if names[0] else owner, ceilings).kind
            for (owner, _), names in values.items()
        }
    )
    return Chart(
        "peaks", f"Peak by precision of {machine.name}", Axis("peak", unit, LOG, span), Axis("", "", "linear", (0.0, 1.0), shown=False),
        f"{title_of(machine)}, {' and '.join(kinds)} ceilings", bars=tuple(bars), notes=tuple(notes), look="bars",
    )  # fmt: skip


def pyramid(machine: Machine, ceilings: str | None = None) -> Chart:
    """The memory hierarchy from the core outwards: capacity of one and of all, bandwidth, latency."""
    bars, notes = [], []
    registers, units = machine.limits.get("registers_per_sm"), machine.units.get("sm")
    size = registers.value() if registers is not None else None
    if size is not None and units:
        text = f"{show(size, 'B', 4, binary=True)} x {units} = {show(size * units, 'B', 4, binary=True)}"
        bars.append(Bar("registers", size * units, None, text, "", "value", {"capacity": size, "instances": units}))
    for level in machine.levels:
        capacity, speed, wait = level.capacity.value(), level.bandwidth.value(ceilings), level.latency.value()
        each = show(capacity, "B", 4, binary=True) if capacity is not None else "capacity not known"
        total = level.total
        parts = [
            f"{each} x {level.instances} = {show(total, 'B', 4, binary=True)}"
            if level.instances > 1 and total is not None
            else each
        ]
        parts.append(
            f"{show(speed, 'B/s', 4)} ({level.bandwidth.kind(ceilings)})"
            if speed is not None
            else "bandwidth not known"
        )
        parts += [show(wait, "s", 3)] if wait is not None else []
        name = level_title(level.name) + (f" ({level.technology})" if level.technology else "")
        details = {
            "capacity": capacity,
            "instances": level.instances,
            "bandwidth": speed,
            "latency": wait,
            "scope": level.scope,
        }
        bars.append(Bar(name, total if total is not None else math.nan, None, " · ".join(parts), "", "value", details))
    if not bars:
        raise InputError(
            f"{machine.name} has no memory level to draw; fill a [[level]] in {machine.file or 'its file'}"
        )
    if all(level.latency.value() is None for level in machine.levels):
        notes.append("its file has no latencies")
    return Chart(
        "pyramid", f"Memory hierarchy of {machine.name}", Axis("", "", "linear", (0.0, 1.0), shown=False), Axis("", "", "linear", (0.0, 1.0), shown=False),
        title_of(machine), bars=tuple(bars), notes=tuple(notes), look="pyramid",
    )  # fmt: skip


FLAGSHIPS = ("p100-sxm2-16gb", "v100-sxm2-32gb", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm")


def trend(
    machine: Machine, machines: Sequence[Machine] | None = None, dtype: str | None = None, ceilings: str | None = None
) -> Chart:
    """Generations: peak, bandwidth and ridge relative to the first, by year of release.

    Without a list: the machines of this vendor and kind that set a bandwidth record when they appeared.
    """
    listed = (
        list(machines)
        if machines
        else [other for other in catalog.everything() if (other.vendor, other.kind) == (machine.vendor, machine.kind)]
    )
    ceilings = ceilings or "stated"  # a measured machine must not fall behind those of which only a datasheet is known
    rows: dict[int, tuple[Machine, float, float]] = {}
    best = 0.0
    for other in sorted(
        (each for each in listed if each.released and each.levels),
        key=lambda each: (
            each.released or 0,
            each.name not in FLAGSHIPS,
            -(each.main.bandwidth.value(ceilings) or 0.0),
            each.name,
        ),
    ):
        if int(other.released or 0) in rows:
            continue
        try:
            peak = other.peak(engine_for(other, dtype or _sixteen(other), ceilings), ceilings).value
            speed = other.bandwidth(MAIN, ceilings).value
        except InputError:
            continue
        if machines or speed > best:
            best = max(best, speed)
            rows[int(other.released or 0)] = (other, peak, speed)
    if len(rows) < 2:
        raise InputError(
            f"a trend needs two generations with a release year, a peak and a bandwidth; found {len(rows)} for {machine.vendor or machine.name}; add machines with --and"
        )
    first = next(iter(rows.values()))
    lines, points = [], []
    top = 1.0
    # names stand on the series that is on top at the end
    series: dict[str, Callable[[float, float], float]] = {
        "peak": lambda peak, speed: peak / first[1],
        "bandwidth": lambda peak, speed: speed / first[2],
        "ridge": lambda peak, speed: (peak / speed) / (first[1] / first[2]),
    }
    for label, of in series.items():
        values = [(float(year), of(peak, speed)) for year, (_, peak, speed) in rows.items()]
        top = max(top, *(value for _, value in values))
        lines.append(Line(tuple(values), "series", "", label, {}))
        for (year, value), (other, peak, speed) in zip(values, rows.values(), strict=True):
            name = other.name if label == "peak" else (f"{value:.2g}x" if value >= 1.005 or value <= 0.995 else "")
            points.append(
                Point(
                    year,
                    value,
                    name,
                    label,
                    "value",
                    other.name,
                    {"factor": value, "peak": peak, "bandwidth": speed, "ridge": peak / speed},
                )
            )
    years = list(rows)
    least = min(point.y for point in points)
    (older, *was), (newer, *now) = list(rows.values())[-2:]
    compute, memory = now[0] / was[0], now[1] / was[1]
    last, before = newer.name, older.name
    gains = "compute-bound work gains more" if compute > memory else "memory-bound work gains more"
    return Chart(
        "trend", f"Generations of {machine.vendor} {machine.kind.upper()}: growth since {first[0].name}", Axis("year of release", "year", "linear", (years[0] - 0.8, years[-1] + 1.4)),
        Axis(f"relative to {first[0].name}", "", LOG, power_span([least, top], 2.0, 1.2)), f"dense peaks in {dtype or '16-bit formats where there are any'}", tuple(lines), tuple(points),
        notes=(f"{before} to {last}: compute {compute:.3g}x, bandwidth {memory:.3g}x, so {gains}",),
    )  # fmt: skip


def _sixteen(machine: Machine) -> str:
    """The fastest 16-bit format, else the usual one."""
    have = {
        name: max(known_peak(machine, f"{owner}.{name}", None) or 0.0 for owner in ("tensor", "vector"))
        for name in ("bf16", "fp16")
    }
    best = max(have, key=lambda name: have[name])
    return best if have[best] > 0 else default_dtype(machine)


def bandwidth_bars(
    rows: Iterable[tuple[str, float, float | None]],
    title: str = "Theoretical against measured bandwidth",
    notes: Sequence[str] = (),
) -> Chart:
    """Bars of theoretical and measured bandwidth (B/s) per device with the percentage; a device without a measurement shows one bar."""
    bars = []
    for name, spec, seen in rows:
        bars.append(
            Bar(name, positive(f"bandwidth of {name}", spec), None, show(spec, "B/s", 4), "theoretical", "value", {})
        )
        if seen is not None:
            share = positive(f"measured bandwidth of {name}", seen) / spec
            bars.append(
                Bar(
                    name,
                    seen,
                    None,
                    f"{show(seen, 'B/s', 4)}   {share * 100:.1f} %",
                    "measured",
                    "measured",
                    {"share": share},
                )
            )
    if not bars:
        raise InputError("there is no bandwidth to draw; give at least one device")
    return Chart(
        "bandwidth", title, Axis("bandwidth", "B/s", "linear", (0.0, max(bar.value for bar in bars) * 1.02)), Axis("", "", "linear", (0.0, 1.0), shown=False),
        "percent of the theoretical figure", bars=tuple(bars), notes=tuple(notes), look="bars",
    )  # fmt: skip


def bandwidth(machine: Machine, machines: Sequence[Machine] | None = None, measured: float | None = None) -> Chart:
    """Theoretical against measured bandwidth; without a measurement of one's own, the public one the machine file carries."""
    listed = [machine, *(other for other in machines or () if other.name != machine.name)]
    rows: list[tuple[str, float, float | None]] = []
    notes: list[str] = []
    for other in listed:
        spec = other.main.bandwidth.value("stated") or other.main.bandwidth.value("derived")
        if spec is None:
            notes.append(f"{other.name} has no stated or derived bandwidth")
            continue
        seen = measured if other is machine and measured is not None else other.main.bandwidth.measured
        public = other.efficiency.get(other.main.name)
        if seen is None and public is not None and public.value() is not None:
            seen = spec * float(public.value() or 0.0)
            notes.append(f"{other.name}: public measurement, {public.source}")
        elif seen is None:
            notes.append(f"{other.name}: nothing measured yet")
        rows.append((other.name, spec, seen))
    if not rows:
        raise InputError(
            f"{'; '.join(notes)}, so there is nothing to hold a measurement against; add machines with --and"
        )
    return bandwidth_bars(rows, notes=notes)


def waterfall(
    title: str,
    unit: str,
    peak: float,
    losses: Iterable[tuple[str, float]],
    measured: float,
    subtitle: str = "",
    notes: Sequence[str] = (),
) -> Chart:
    """From a peak through named losses (amounts, same unit) to what was measured; what no cause explains is a bar of its own."""
    positive("peak", peak)
    positive("measured", measured)
    bars = [Bar("peak", peak, 0.0, f"{show(peak, unit, 4)}   100 %", "peak", "value", {})]
    left = peak
    for cause, lost in losses:
        if not 0 <= lost <= left:
            raise InputError(
                f"loss '{cause}' of {show(lost, unit)} does not fit: {show(left, unit)} is left of the peak"
            )
        bars.append(
            Bar(cause, left, left - lost, f"-{show(lost, unit, 4)}   {lost / peak * 100:.1f} %", "loss", "loss", {})
        )
        left -= lost
    rest = left - measured
    told = list(notes)
    if abs(rest) > 1e-9 * peak:
        if rest < 0:
            told.append("the named losses add up to more than was lost")
        bars.append(
            Bar(
                "unexplained",
                max(left, measured),
                min(left, measured),
                f"{'-' if rest > 0 else '+'}{show(abs(rest), unit, 4)}   {abs(rest) / peak * 100:.1f} %",
                "unexplained",
                "unexplained",
                {"remainder": rest},
            )
        )
    bars.append(
        Bar(
            "measured",
            measured,
            0.0,
            f"{show(measured, unit, 4)}   {measured / peak * 100:.1f} %",
            "measured",
            "measured",
            {},
        )
    )
    return Chart(
        "losses", title, Axis("rate", unit, "linear", (0.0, peak * 1.02)), Axis("", "", "linear", (0.0, 1.0), shown=False), subtitle or "percent of the peak",
        bars=tuple(bars), notes=tuple(told), look="bars",
    )  # fmt: skip


def losses(
    machine: Machine,
    dtype: str | None = None,
    memory: tuple[Sequence[tuple[str, float]], float] | None = None,
    compute: tuple[Sequence[tuple[str, float]], float] | None = None,
) -> Picture:
    """Loss cascades of a memory-bound and a compute-bound kernel: `(losses, measured)` each, in B/s and flop/s.

    Without numbers of one's own, what was measured of the machine is shown: the power limit is what lasting load takes
    from a burst, the rest stays unexplained. Where nothing was measured here, a public measurement stands in.
    """
    engine = engine_for(machine, dtype or default_dtype(machine), None)
    sides = (
        ("memory-bound", machine.main.bandwidth, "B/s", machine.main.name, memory),
        ("compute-bound", machine.peaks[engine], rate_unit([engine]), engine, compute),
    )
    made, notes = [], []
    for title, figure, unit, name, given in sides:
        peak = figure.value("stated") or figure.value("derived")
        public = machine.efficiency.get(name)
        if peak is None:
            notes.append(f"{name} has no stated or derived figure to lose from")
            continue
        if given is not None:
            made.append(waterfall(title, unit, peak, given[0], given[1]))
        elif figure.measured is not None:
            lasting = figure.sustained if figure.sustained is not None else figure.measured
            power = figure.measured - lasting
            found = [("power limit under lasting load", power)] if power > 0 else []
            made.append(waterfall(title, unit, peak, found, lasting, f"{name}: measured"))
            notes.append(f"{name}: {figure.measurement}")
        elif public is not None and public.value() is not None:
            made.append(
                waterfall(title, unit, peak, (), peak * float(public.value() or 0.0), f"{name}: public measurement")
            )
            notes.append(f"{name}: {public.source}")
        else:
            notes.append(f"nothing measured for {name}")
    if not made:
        raise InputError(
            f"{machine.name}: {'; '.join(notes)}, so there is no loss to draw; measure a machine whose peaks are stated, "
            "or give memory= or compute= in Python"
        )
    if len(made) == 1:
        return replace(made[0], title=f"Losses on {machine.name}, {made[0].title}", notes=tuple(notes))
    return Panel(f"Losses on {machine.name}", tuple(made), title_of(machine), tuple(notes), "losses")
