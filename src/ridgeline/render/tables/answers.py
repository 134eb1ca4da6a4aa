"""Answers: what the commands that compute show, as Tables and as the documents outsiders read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.bound import Bound, Term
from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError, MissingFigure
from ...core.machine import ANY, Machine
from ...core.roofline import achieved, saturation
from ...core.roofline import critical_batch as turning_batch
from ...core.units import number, parse, show
from ...gaps.rules import moves
from ...prediction import compare
from ...prediction.flat import efficiency
from ...prediction.predict import Prediction, plain, predict
from ...programs.ops import Op, find
from ..table import Column, Table

Turn = tuple[str, float] | None
FACT = (Column("fact", ""), Column("value", ""))


@dataclass(frozen=True)
class Answer:
    """One `predict`: a single case or a sweep."""

    op: Op
    given: dict[str, Any]
    prediction: Prediction
    turn: Turn = None
    took: str | None = None

    @property
    def single(self) -> bool:
        return self.prediction.count == 1

    def documents(self, most: int | None = None) -> list[dict[str, Any]]:
        """One document per case, of the first `most`."""
        rows = list(self.prediction.rows(most))
        told: dict[str, Any] = {}
        told["notes"] = [*self.prediction.work.notes, *self.prediction.bounds[0].notes]
        if self.turn is not None:
            told["turns_compute_bound_at"] = {self.turn[0]: None if np.isinf(self.turn[1]) else int(self.turn[1])}
        for row in rows:
            row.update(told)
        if self.took:
            for row, found in zip(rows, self._achieved(rows), strict=True):
                row["achieved"] = found
        return rows

    def document(self) -> Any:
        """One object for one case, a list for a sweep."""
        rows = self.documents()
        return rows[0] if len(rows) == 1 else rows

    def _achieved(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        time = parse(self.took or "", "s")
        if time <= 0:
            raise InputError(f"--took must be a positive time, got '{self.took}'")
        item = self.prediction.bounds[0]
        peaks = np.asarray(float("inf") if item.peak is None else item.peak)
        level = [term for term in item.terms.values() if term.side == "memory"][-1]
        found = []
        for place, row in enumerate(rows):
            peak = float(peaks.ravel()[place if peaks.ndim else 0])
            one = achieved(row["flops"], row["bytes"], time, peak, level.ceiling.value)
            found.append(
                {
                    "time_us": time * 1e6,
                    "rate": one.rate,
                    "bandwidth": row["bytes"] / time,
                    "peak_share": one.peak_share,
                    "bandwidth_share": one.bandwidth_share,
                    "roof_share": row["floor_us"] / (time * 1e6),
                    "verdict": one.verdict,
                    "predicted_over_measured": row["time_us"] / (time * 1e6),
                }
            )
        return found

    # -- tables -------------------------------------------------------------------------------------------

    def tables(self, levels: bool = False, explain: bool = False, most: int = 64) -> list[Table]:
        shown = [self.card(self.documents()[0])] if self.single else [self.rows_table(most)]
        if levels:
            shown.append(self.levels_table())
        if explain:
            shown += self.explanation()
        return shown

    def card(self, row: dict[str, Any]) -> Table:
        """The whole answer of one case, top to bottom, ending in what to try next."""
        item, machine = self.prediction.bounds[0], self.prediction.machine
        bound, engine = str(row["bound"]), first(item.engine)
        amount, speed = _counted(row["dtype"])
        named = "peak" if engine == ANY else f"{engine} peak"
        facts = {
            "flops": show(row["flops"], amount),
            "bytes": f"{show(row['bytes'], 'B')} ({show(_float(item.work.bytes_at('main', 'read')), 'B')} read, {show(_float(item.work.bytes_at('main', 'write')), 'B')} written)",
            "intensity": f"{show(row['intensity'], 'flop/B')} at {self._boundary()}",
            "ridge": f"{show(row['ridge'], 'flop/B')} ({engine})" if row["ridge"] else "-",
            "bound": f"{bound}, limited by {row['limiter']} ({row['bound_sure']:.0%} sure of the side)",
            "attainable": f"{show(row['attainable'], speed)}{self._together(item, row)}, {show(row['share_of_peak'] * 100, '%', 3)} of the {named}"
            if engine
            else self._rate(row),
            "floor": f"{show(row['floor_us'] / 1e6, 's')} ({row['ceilings']} ceilings)",
            "time": f"{show(row['time_us'] / 1e6, 's')}, in four cases of five {show(row['low_us'] / 1e6, 's', 3)} to {show(row['high_us'] / 1e6, 's', 3)}; {row['efficiency']:.0%} of it is the floor",
            "confidence": row["confidence"],
        }
        if self.turn is not None:
            name, value = self.turn
            facts["turns"] = (
                f"never compute-bound, however large {name}"
                if np.isinf(value)
                else f"compute-bound from {name} = {value:.0f}"
            )
        if "achieved" in row:
            facts.update(_achieved_facts(row["achieved"], engine))
        facts["next"] = "; ".join(f"{move.name} ({move.changes})" for move in moves(bound))
        title = f"{self.op.name} {_shape(row['shape'])} in {row['dtype']} on {machine.name}"
        return Table(
            title,
            FACT,
            [{"fact": name, "value": text} for name, text in facts.items()],
            tuple(f"note: {text}" for text in item.notes),
        )

    def _boundary(self) -> str:
        return [name for name, term in self.prediction.bounds[0].terms.items() if term.side == "memory"][-1]

    def _rate(self, row: dict[str, Any]) -> str:
        return f"no flops; {show(row['bytes'] / (row['floor_us'] / 1e6), 'B/s')} at the floor"

    def rows_table(self, most: int | None = None) -> Table:
        rows = self.documents(most)
        swept = [name for name, value in self.given.items() if isinstance(value, np.ndarray)] or list(rows[0]["shape"])
        amount, speed = _counted(rows[0]["dtype"])
        columns = [Column(name) for name in swept]
        columns += [
            Column("flops", "FLOPs", amount),
            Column("bytes", "bytes", "B"),
            Column("intensity", "FLOP/B"),
            Column("bound"),
            Column("limiter"),
            Column("attainable", "attainable", speed),
            Column("share_of_peak", "of peak", percent=True, digits=3),
            Column("floor_us", "floor us"),
            Column("time_us", "time us"),
            Column("low_us", "from", digits=3),
            Column("high_us", "to us", digits=3),
            Column("efficiency", "floor/time", percent=True, digits=3),
        ]
        flat = [{**row["shape"], **row} for row in rows]
        first = rows[0]
        ridge = f"ridge {show(first['ridge'])} FLOP/B; " if first["ridge"] else ""
        notes = [f"{ridge}{first['ceilings']} ceilings; time: {self.prediction.expected[0].basis}"]
        if self.turn is not None and self.turn[0] in swept:
            notes.append(
                "never compute-bound"
                if np.isinf(self.turn[1])
                else f"compute-bound from {self.turn[0]} = {self.turn[1]:.0f}"
            )
        notes += self.prediction.bounds[0].notes
        if self.prediction.count > len(flat):
            notes.append(f"{self.prediction.count - len(flat)} more rows: use --json or --out FILE")
        title = f"{self.op.name} in {first['dtype']} on {self.prediction.machine.name}"
        return Table(title, columns, flat, tuple(notes))

    def _first(self, value: Any) -> float:
        return float(np.asarray(value).ravel()[0])

    def levels_table(self) -> Table:
        """Every level with a bandwidth: bytes crossing it, intensity, its ridge, its time, the verdict there."""
        item, machine = self.prediction.bounds[0], self.prediction.machine
        rows: list[dict[str, Any]] = []
        peak = None if item.peak is None else self._first(item.peak)
        least = 0.0  # what crosses a level must cross every level nearer the core too
        for level in reversed(machine.levels):
            figure = level.bandwidth.value(item.ceilings)
            counted = item.terms.get(level.name)
            moved = least = max(least, self._first(counted.amount) if counted else least)
            row: dict[str, Any] = {
                "level": level.name,
                "bandwidth": figure,
                "kind": level.bandwidth.kind(item.ceilings) if figure else None,
                "bytes": moved,
                "counted": "yes" if counted else "no: at least what crosses the next level",
            }
            if figure:
                flops = self._first(item.flops)
                row |= {"intensity": flops / moved, "ridge": peak / figure if peak else None, "time": moved / figure}
                row["bound"] = None if not peak else "compute" if flops / peak >= moved / figure else "memory"
            rows.insert(0, row)
        columns = (
            Column("level"),
            Column("bandwidth", unit="B/s"),
            Column("kind"),
            Column("bytes", unit="B"),
            Column("intensity", "FLOP/B"),
            Column("ridge"),
            Column("time", unit="s"),
            Column("bound", "bound there"),
            Column("counted", "in the floor"),
        )
        note = "the floor is the largest term, never a sum; a level without a bandwidth is one nobody publishes"
        first = "" if self.single else " (first case)"
        return Table(f"levels{first}", columns, rows, (note,))

    def explanation(self) -> list[Table]:
        item = self.prediction.bounds[0]
        first = "" if self.single else " (first case)"
        counts = [
            {
                "what": f"{engine}.{dtype}",
                "addend": label,
                "formula": item.work.formulas.get((engine, dtype, label), ""),
                "amount": self._first(value),
            }
            for (engine, dtype, label), value in item.work.counts.items()
        ]
        counts.append(
            {
                "what": "total",
                "addend": "",
                "formula": "a fused multiply-add counts as two",
                "amount": self._first(item.flops),
            }
        )
        moved = [
            {
                "what": f"{level} {way}",
                "addend": tensor,
                "formula": item.work.formulas.get((level, tensor, way), ""),
                "amount": self._first(value),
            }
            for (level, tensor, way), value in item.work.moves.items()
        ]
        for level in item.work.levels():
            moved.append(
                {
                    "what": f"{level} total",
                    "addend": "",
                    "formula": "reads and writes",
                    "amount": self._first(item.work.bytes_at(level)),
                }
            )
        columns = (Column("what"), Column("addend"), Column("formula"))
        return [
            Table(
                f"flops{first}: {self.op.summary}",
                (*columns, Column("amount", unit="flop", digits=6)),
                counts,
                tuple(f"note: {text}" for text in item.work.notes),
            ),
            Table(f"bytes{first}", (*columns, Column("amount", unit="B", digits=6)), moved),
            self._ceilings_table(item, first),
            self._items_table(first),
        ]

    def _items_table(self, title: str) -> Table:
        """Where the expected time goes, item by item; what an item takes away is negative."""
        step = self.prediction.expected[0]
        whole = self._first(step.time)
        rows = [
            {
                "item": f"{item.kernel}: {item.effect}" if item.kernel else item.effect,
                "time": seconds,
                "share": seconds / whole,
            }
            for item in step.items()
            if abs(seconds := self._first(item.seconds)) > 1e-4 * whole
        ]
        rows.append({"item": "expected time", "time": whole, "share": 1.0})
        notes = [
            f"in four cases of five between {show(self._first(step.low), 's')} and {show(self._first(step.high), 's')}"
        ]
        for kernel in step.kernels:
            if self._first(kernel.applies):
                coefficients = ", ".join(f"{name} {value:.3g}" for name, value in kernel.coefficients.items() if value)
                notes.append(f"{kernel.selected.key}: {coefficients}; {kernel.selected.fitted.source}")
        notes.append(str(first(step.confidence)))
        columns = (Column("item"), Column("time", unit="s"), Column("share", percent=True, digits=3))
        return Table(f"expected time{title}", columns, rows, tuple(notes))

    def _together(self, item: Bound, row: dict[str, Any]) -> str:
        """The rate counts all flops; where other engines do a part of them it may pass the peak of the one it is judged by."""
        peak = self._first(item.peak) if item.peak is not None else 0.0
        return " on all engines together" if row["attainable"] > peak * row["share_of_peak"] * 1.001 else ""

    def _why(self, item: Bound, name: str, term: Term) -> str:
        """The sentence behind a ceiling; where a mix of accesses was measured, that of the mix which was taken."""
        rate = self._first(term.rate)
        level = next((level for level in item.machine.levels if level.name == name), None)
        mixes = level.mixes.values() if level and rate != term.ceiling.value else ()
        return next((figure.measurement for figure in mixes if figure.measured == rate), term.ceiling.why)

    def _ceilings_table(self, item: Bound, first: str) -> Table:
        rows: list[dict[str, Any]] = []
        floor = self._first(item.floor)
        flat = not self.prediction.expected[0].kernels
        for name, term in item.terms.items():
            part = efficiency(item, name, self.prediction.given_efficiency)
            time = self._first(term.time)
            row = {
                "term": name,
                "unit": show(self._first(term.rate), _speed(name, term.side)),
                "kind": term.ceiling.kind,
                "time": time,
                "binds": "floor" if time == floor else "",
                "why": self._why(item, name, term),
            }
            if flat:
                told = f"{row['why']}; efficiency: {part.why}"
                row |= {"efficiency": part.value, "expected": time / part.value, "why": told}
            rows.append(row)
        launches = self._first(item.work.waits.get("launch", 0.0))
        if not flat:
            lead = (Column("term"), Column("unit", "ceiling"), Column("kind"), Column("time", "time at ceiling", "s"))
            return Table(f"ceilings{first}", (*lead, Column("binds"), Column("why", "source")), rows)
        rows.append(
            {
                "term": "launch",
                "unit": show(item.launch, "s"),
                "kind": "",
                "time": None,
                "efficiency": None,
                "expected": item.launch * launches,
                "binds": "",
                "why": f"{launches:g} launch(es); added to the slowest term",
            }
        )
        columns = (
            Column("term"),
            Column("unit", "ceiling"),
            Column("kind"),
            Column("time", "time at ceiling", "s"),
            Column("efficiency", percent=True, digits=3),
            Column("expected", unit="s"),
            Column("binds"),
            Column("why", "source"),
        )
        notes = [
            f"time = {show(self._first(self.prediction.time), 's')} = slowest expected term + launch; floor = {show(floor, 's')} = largest term"
        ]
        return Table(f"ceilings{first}", columns, rows, (*notes, *(f"note: {text}" for text in item.notes)))


def _speed(name: str, side: str) -> str:
    """Integer work and special functions are operations, not flops."""
    if side != "compute":
        return "B/s"
    return "op/s" if ".int" in name or name.startswith("special") else "flop/s"


def first(value: Any) -> Any:
    """The first case of a column."""
    return plain(value, 0)


def _integer_units(dtype: str) -> dict[str, str]:
    """Integer work is counted by the same rules but called OP."""
    if not dtype_row(dtype).integer:
        return {}
    return {f"{key}:unit": unit for key, unit in (("flops", "op"), ("attainable", "op/s"), ("peak", "op/s"))}


def _float(value: Any) -> float:
    return float(np.asarray(value).ravel()[0])


def _shape(shape: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={value:g}"
        if isinstance(value, float) or (isinstance(value, int) and abs(value) >= 1e7)
        else f"{name}={value}"
        for name, value in shape.items()
    )


def _achieved_facts(found: dict[str, Any], engine: str | None) -> dict[str, str]:
    share = found["roof_share"]
    text = f"{show(found['time_us'] / 1e6, 's')}: {show(found['rate'], 'flop/s')}, {show(found['bandwidth'], 'B/s')}; {share:.1%} of the roof"
    if share > 1:
        text += ". Above the roof: data already in cache, other counts than the kernel's, or a ceiling set too low"
    peak = f"{found['peak_share']:.1%} of the {engine} peak, " if engine else ""
    return {
        "measured": text,
        "verdict": f"{found['verdict']} ({peak}{found['bandwidth_share']:.1%} of the bandwidth); predicted / measured {found['predicted_over_measured']:.2f}",
    }


def _counted(dtype: str) -> tuple[str, str]:
    """The units of amount and rate: whole numbers have operations, not flops."""
    return ("op", "op/s") if dtype and dtype_row(dtype).integer else ("flop", "flop/s")


def cases_table(rows: list[dict[str, Any]], count: int) -> Table:
    """The first rows of `count` cases."""
    columns = (
        Column("op"),
        Column("dtype"),
        Column("machine"),
        Column("intensity", "FLOP/B"),
        Column("bound"),
        Column("limiter"),
        Column("floor_us", "floor us"),
        Column("time_us", "time us"),
        Column("error"),
    )
    notes = (f"{count - len(rows)} more rows: use --json or --out FILE",) if count > len(rows) else ()
    return Table(f"{count} case{'' if count == 1 else 's'}", columns, rows, notes)


# -- other questions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CriticalBatch:
    fan_in: float
    fan_out: float
    dtype: str
    weights: str
    ridge: float
    where: str
    batch: float
    saturation: float

    def document(self) -> dict[str, Any]:
        never = np.isinf(self.batch)
        return {
            "in_features": self.fan_in,
            "out_features": self.fan_out,
            "dtype": self.dtype,
            "weights": self.weights,
            "ridge": self.ridge,
            "of": self.where,
            "critical_batch": None if never else int(self.batch),
            "never": bool(never),
            "saturation": self.saturation,
        }

    def table(self) -> Table:
        answer = "never: the intensity saturates below the ridge" if np.isinf(self.batch) else f"{self.batch:.0f}"
        facts = {
            "critical batch": answer,
            "ridge": f"{show(self.ridge, 'flop/B')} ({self.where})",
            "intensity for ever larger batches": show(self.saturation, "flop/B"),
        }
        return Table(
            f"linear {self.fan_in:.0f} to {self.fan_out:.0f}, {self.dtype} arithmetic, {self.weights} weights",
            FACT,
            [{"fact": name, "value": text} for name, text in facts.items()],
        )


def critical_batch(
    fan_in: str,
    fan_out: str,
    machine: Machine | None,
    ridge: str | None,
    dtype: str,
    weights: str | None,
    ceilings: str | None,
) -> CriticalBatch:
    sizes = find("linear").check({"batch": 1, "in_features": number(fan_in), "out_features": number(fan_out)})
    row, stored = dtype_row(dtype), dtype_row(weights or dtype)
    if machine is not None:
        engine = machine.engine("matrix", row.name)
        at = compare.layer_ridge(machine, sizes["in_features"], sizes["out_features"], row.name, weights, ceilings)
        where = f"{engine} against {machine.main.name} of {machine.name}"
    else:
        at, where = parse(ridge or "", "flop/B"), "given by the caller"
        if at <= 0:
            raise InputError(f"--ridge must be positive, got '{ridge}'")
    width, wide = row.bytes, stored.bytes
    batch = turning_batch(at, sizes["in_features"], sizes["out_features"], width, wide)
    return CriticalBatch(
        sizes["in_features"],
        sizes["out_features"],
        row.name,
        stored.name,
        at,
        where,
        float(batch),
        float(saturation(sizes["in_features"], sizes["out_features"], width)),
    )


def precisions(
    op: Op, given: dict[str, Any], machine: Machine, dtypes: Sequence[str] | None, ceilings: str | None
) -> Table:
    rows = []
    for name, prediction in compare.precisions(op, given, machine, dtypes, ceilings=ceilings):
        for place, row in enumerate(prediction.rows()):
            item = prediction.bounds[0]
            rows.append(
                {
                    **row["shape"],
                    **row,
                    "dtype": name,
                    "bits": dtype_row(name).stored_bits,
                    "peak": plain(item.peak, place),
                    "engine": plain(item.engine, place),
                    **_integer_units(name),
                    "to_ridge": row["intensity"] / row["ridge"] if row["ridge"] else None,
                }
            )
    columns = (
        Column("dtype"),
        Column("bits"),
        Column("engine"),
        Column("peak", unit="flop/s"),
        Column("intensity", "FLOP/B"),
        Column("ridge"),
        Column("to_ridge", "AI/ridge"),
        Column("bound"),
        Column("attainable", unit="flop/s"),
        Column("floor_us", "floor us"),
        Column("time_us", "time us"),
    )
    swept = [name for name, value in given.items() if isinstance(value, np.ndarray)]
    title = f"{op.name} {_shape({name: value for name, value in given.items() if name not in swept})} on {machine.name}"
    note = "AI/ridge tells the side, time the gain; narrower storage with wider arithmetic (--weights) moves towards the ridge"
    return Table(title, (*(Column(name) for name in swept), *columns), rows, (note,))


def comparison(
    chosen: Sequence[Machine],
    dtype: str,
    ceilings: str | None,
    words: Sequence[str],
    bind: Callable[..., dict[str, Any]],
) -> Table:
    """Machines in the order given: growth from one to the next and the phase it helps, and one op on each if asked for."""
    rows: list[dict[str, Any]] = []
    missing = []
    able = []
    ceilings = ceilings or compare.common_kind(chosen, dtype)
    for machine in chosen:
        try:
            machine.peak(machine.engine("matrix", dtype), ceilings), machine.bandwidth(ceilings=ceilings)
            able.append(machine)
        except MissingFigure as error:
            missing.append(f"{machine.name} left out: {error}")
    if not able:
        raise MissingFigure("\n".join(missing))
    for generation in compare.generations(able, dtype, ceilings):
        rows.append(
            {
                "machine": generation.machine.name,
                "engine": generation.engine,
                "peak": generation.peak,
                "bandwidth": generation.bandwidth,
                "ridge": generation.ridge,
                "compute_growth": generation.compute_growth,
                "bandwidth_growth": generation.bandwidth_growth,
                "gains": generation.gains or None,
            }
        )
    columns = [
        Column("machine"),
        Column("engine"),
        Column("peak", unit="flop/s"),
        Column("bandwidth", unit="B/s"),
        Column("ridge", "ridge FLOP/B"),
        Column("compute_growth", "compute x", digits=3),
        Column("bandwidth_growth", "bandwidth x", digits=3),
        Column("gains", "gains more"),
    ]
    notes = [
        f"{dtype}, dense, {ceilings or 'mixed'} ceilings; growth is against the row above; more compute helps prefill, more bandwidth decode",
        *missing,
    ]
    if words:
        op = find(words[0])
        given = bind(
            op,
            words[1:],
            {"dtype": dtype} if "dtype" in op.params and not any(word.startswith("dtype=") for word in words) else {},
        )
        if any(isinstance(value, np.ndarray) for value in given.values()):
            raise InputError("compare takes one case of an op, not a sweep; use predict for sweeps")
        for row, machine in zip(rows, able, strict=True):
            made = next(predict(op(**given), machine, ceilings=ceilings).rows())
            row |= {"bound": made["bound"], "floor_us": made["floor_us"], "time_us": made["time_us"]}
        for row in rows:
            row["speedup"] = rows[0]["time_us"] / row["time_us"]
        columns += [
            Column("bound"),
            Column("floor_us", "floor us"),
            Column("time_us", "time us"),
            Column("speedup", "x first", digits=3),
        ]
        notes.append(f"op: {' '.join(words)}")
    return Table("machines side by side", columns, rows, tuple(notes))
