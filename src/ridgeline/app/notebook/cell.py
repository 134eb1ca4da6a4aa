"""What a cell took: its wall time and the ops a profiler saw in it, held to the roofs of a machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core.errors import RidgelineError
from ...core.notes import ABOVE_ROOFLINE, of_kind
from ...core.statistics import median
from . import html

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.observation import Observation
    from ...core.work import Work
    from ...prediction.predict import Prediction
    from ...render.chart import Picture
    from ...render.table import Table


@dataclass(frozen=True)
class Cell:
    """What a cell did: its wall times, the ops a profiler saw in it, and the machine it is held against."""

    walls: tuple[float, ...]
    observations: tuple[Observation, ...]
    machine: Machine | None
    notes: tuple[str, ...] = ()
    predicted: Prediction | None = None  # of the op that the line says the cell is

    def table(self) -> Table:
        from ...render.table import Column, Table

        rows = [_row(item, self.machine) for item in self.observations]
        total = sum(row["total"] for row in rows)
        rows = sorted(({**row, "share": row["total"] / total} for row in rows), key=lambda row: -row["total"])
        wall = median(self.walls)
        cell: dict[str, Any] = {"name": "the cell", "count": len(self.walls), "time": wall, "total": sum(self.walls)}
        if self.predicted is not None:
            cell |= _against_roof(self.predicted, wall)
        columns = (
            Column("name"), Column("count", "times"), Column("time", "median", "s"), Column("total", "total", "s"), Column("share", "of the ops", percent=True, digits=3),
            Column("roof", "of its roof", percent=True, digits=3), Column("bound"), Column("limiter"),
        )  # fmt: skip
        title = f"%%roofline on {self.machine.title or self.machine.name}" if self.machine else "%%roofline"
        return Table(title, columns, [*rows, cell], self.notes)

    def chart(self) -> Picture | None:
        """The ops whose shapes give their work, at their measured rates; None where none has a place."""
        from ...prediction.kernel_sets import kernel_name
        from ...render.charts.gaps import Observed, gaps
        from ...render.charts.wording import INTENSITY

        points: dict[str, Observed] = {}
        known = list(self._known())
        for seconds, work in known:
            flops, moved, name = float(work.flops), float(work.bytes), kernel_name(work)
            if flops > 0 and moved > 0:
                points.setdefault(name, Observed(name, flops / moved, flops / seconds))
        if self.machine is None or not points:
            return None
        try:
            drawn = gaps(self.machine, list(points.values())[: html.MAX_POINTS], known[0][1].dtype)
        except RidgelineError:
            return None
        above = of_kind(drawn.notes, ABOVE_ROOFLINE)
        basis = "times are measured; flops and bytes are those of the algorithm, from the shapes"
        x = replace(drawn.x, label=INTENSITY)
        return replace(drawn, title=f"A cell on {self.machine.name}", x=x, notes=(basis, *above))

    def _known(self) -> Iterator[tuple[float, Work]]:
        """Median time and work of what is known by its counts: the cell, then its ops, the longest first."""
        if self.predicted is not None:
            yield median(self.walls), self.predicted.work
        for item in sorted(self.observations, key=lambda item: -sum(item.samples)):
            work = _work(item)
            if work is not None:
                yield item.median, work

    def _repr_html_(self) -> str:
        return html.page(self.table(), self.chart())

    def __repr__(self) -> str:
        from ...render.draw.terminal import draw

        picture, text = self.chart(), self.table().text()
        return text if picture is None else f"{text}\n\n{draw(picture, 100, 24, False, False)}"


def _row(item: Observation, machine: Machine | None) -> dict[str, Any]:
    """An op of a cell, with its roof where its shapes give its work and the machine has the ceilings."""
    from ...prediction.predict import predict

    row = {"name": _title(item), "count": len(item.samples), "time": item.median, "total": sum(item.samples)}
    work = _work(item)
    if work is None or machine is None:
        return row
    try:
        return row | _against_roof(predict(work, machine), item.median)
    except RidgelineError:
        return row


def _against_roof(prediction: Prediction, seconds: float) -> dict[str, Any]:
    bound = prediction.bounds[0]
    return {"roof": float(bound.floor) / seconds, "bound": str(bound.bound), "limiter": str(bound.limiter)}


def _work(item: Observation) -> Work | None:
    """The work of an op that did it itself; one that called another op has only its own few instructions."""
    from ...programs.calls import has_rule, work_of

    settings = item.settings
    if any(has_rule(name) and not name.startswith("aten::copy") for name in settings.get("called", [])):
        return None
    return work_of(str(settings.get("op", item.name)), settings.get("shapes", []), settings.get("dtypes", []))


def _title(item: Observation) -> str:
    shapes = " ".join("x".join(str(size) for size in shape) for shape in item.settings.get("shapes", [])[:3] if shape)
    path = "/".join(item.path)
    return " ".join(part for part in (f"{path}:" if path else "", item.name.removeprefix("aten::"), shapes) if part)
