"""Charts of what is reached of a stated figure: bandwidth bars, and cascades from a peak down to a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...core.errors import InputError
from ...core.figure import Figure
from ...core.machine import Machine, positive
from ...core.units import show
from ...prediction.ceilings import default_dtype, engine_for
from ..chart import Axis, Bar, Chart, Panel, Picture
from .machines import NO_AXIS
from .wording import rate_unit, title_of

Losses = Sequence[tuple[str, float]]


def _limit(figure: Figure) -> float | None:
    return figure.value("stated") or figure.value("derived")


def _public(machine: Machine, name: str) -> tuple[float, str] | None:
    """The fraction of a ceiling that a public measurement reached, and its source."""
    figure = machine.efficiency.get(name)
    value = None if figure is None else figure.value()
    return None if figure is None or value is None else (float(value), figure.source)


def bandwidth_bars(
    rows: Iterable[tuple[str, float, float | None]],
    title: str = "Theoretical against measured bandwidth",
    notes: Sequence[str] = (),
) -> Chart:
    """Bars of theoretical and measured bandwidth (B/s) per device with the percentage; a device without a measurement shows one bar."""
    bars = []
    for name, limit, measured in rows:
        positive(f"bandwidth of {name}", limit)
        bars.append(Bar(name, limit, None, show(limit, "B/s", 4), "theoretical", "value", {}))
        if measured is not None:
            share = positive(f"measured bandwidth of {name}", measured) / limit
            text = f"{show(measured, 'B/s', 4)}   {share * 100:.1f} %"
            bars.append(Bar(name, measured, None, text, "measured", "measured", {"share": share}))
    if not bars:
        raise InputError("there is no bandwidth to draw; give at least one device")
    across = Axis("bandwidth", "B/s", "linear", (0.0, max(bar.value for bar in bars) * 1.02))
    return Chart(
        "bandwidth", title, across, NO_AXIS, "percent of the theoretical figure", bars=tuple(bars), notes=tuple(notes), look="bars",
    )  # fmt: skip


def bandwidth(machine: Machine, machines: Sequence[Machine] | None = None, measured: float | None = None) -> Chart:
    """Theoretical against measured bandwidth; without a measurement of one's own, the public one the machine file carries."""
    rows: list[tuple[str, float, float | None]] = []
    notes: list[str] = []
    for other in [machine, *(each for each in machines or () if each.name != machine.name)]:
        limit = _limit(other.main.bandwidth)
        if limit is None:
            notes.append(f"{other.name} has no stated or derived bandwidth")
            continue
        reached = measured if other is machine and measured is not None else other.main.bandwidth.measured
        public = _public(other, other.main.name)
        if reached is None and public is not None:
            reached = limit * public[0]
            notes.append(f"{other.name}: public measurement, {public[1]}")
        elif reached is None:
            notes.append(f"{other.name}: nothing measured yet")
        rows.append((other.name, limit, reached))
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
    subtitle: str = "percent of the peak",
) -> Chart:
    """From a peak through named losses (amounts, same unit) to what was measured; what no cause explains is a bar of its own."""
    positive("peak", peak)
    positive("measured", measured)

    def text(value: float, sign: str = "", digits: int = 1) -> str:
        return f"{sign}{show(value, unit, 4)}   {value / peak * 100:.{digits}f} %"

    bars = [Bar("peak", peak, 0.0, text(peak, digits=0), "peak", "value", {})]
    left = peak
    for cause, lost in losses:
        if not 0 <= lost <= left:
            raise InputError(
                f"loss '{cause}' of {show(lost, unit)} does not fit: {show(left, unit)} is left of the peak"
            )
        bars.append(Bar(cause, left, left - lost, text(lost, "-"), "loss", "loss", {}))
        left -= lost
    remainder = left - measured
    if abs(remainder) > 1e-9 * peak:
        ends, words = (max(left, measured), min(left, measured)), text(abs(remainder), "-" if remainder > 0 else "+")
        bars.append(Bar("unexplained", *ends, words, "unexplained", "unexplained", {"remainder": remainder}))
    bars.append(Bar("measured", measured, 0.0, text(measured), "measured", "measured", {}))
    notes = ("the named losses add up to more than was lost",) if remainder < -1e-9 * peak else ()
    across = Axis("rate", unit, "linear", (0.0, peak * 1.02))
    return Chart("losses", title, across, NO_AXIS, subtitle, bars=tuple(bars), notes=notes, look="bars")


def losses(
    machine: Machine,
    dtype: str | None = None,
    memory: tuple[Losses, float] | None = None,
    compute: tuple[Losses, float] | None = None,
) -> Picture:
    """Loss cascades of a memory-bound and a compute-bound kernel: `(losses, measured)` each, in B/s and flop/s.

    Without numbers of one's own, what was measured of the machine is shown: the power limit is what lasting load takes
    from a burst, the rest stays unexplained. Where nothing was measured here, a public measurement stands in.
    """
    engine = engine_for(machine, dtype or default_dtype(machine))
    main = machine.main
    sides = (
        ("memory-bound", main.bandwidth, "B/s", main.name, memory),
        ("compute-bound", machine.peaks[engine], rate_unit([engine]), engine, compute),
    )
    charts, notes = [], []
    for title, figure, unit, name, given in sides:
        chart, note = _cascade(machine, title, figure, unit, name, given)
        charts += [chart] if chart is not None else []
        notes += [note] if note else []
    if not charts:
        raise InputError(
            f"{machine.name}: {'; '.join(notes)}, so there is no loss to draw; measure a machine whose peaks are stated, "
            "or give memory= or compute= in Python"
        )
    if len(charts) == 1:
        return replace(charts[0], title=f"Losses on {machine.name}, {charts[0].title}", notes=tuple(notes))
    return Panel(f"Losses on {machine.name}", tuple(charts), title_of(machine), tuple(notes), "losses")


def _cascade(
    machine: Machine, title: str, figure: Figure, unit: str, name: str, given: tuple[Losses, float] | None
) -> tuple[Chart | None, str]:
    """The losses of one figure and what they rest on, or why there is nothing to draw."""
    peak, public = _limit(figure), _public(machine, name)
    if peak is None:
        return None, f"{name} has no stated or derived figure to lose from"
    if given is not None:
        return waterfall(title, unit, peak, *given), ""
    if figure.measured is not None:
        lasting = figure.sustained if figure.sustained is not None else figure.measured
        power = figure.measured - lasting
        causes = [("power limit under lasting load", power)] if power > 0 else []
        return waterfall(title, unit, peak, causes, lasting, f"{name}: measured"), f"{name}: {figure.measurement}"
    if public is not None:
        chart = waterfall(title, unit, peak, (), peak * public[0], f"{name}: public measurement")
        return chart, f"{name}: {public[1]}"
    return None, f"nothing measured for {name}"
