"""Charts for people: `plot` makes one from a machine and predictions; it saves itself, shows itself in a terminal and in Jupyter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.machine import Machine
from ..machines.load import as_machine
from ..prediction.predict import Prediction
from .chart import Picture, document
from .charts import find
from .draw import files, mpl, terminal


@dataclass(frozen=True)
class Figure:
    """A chart with the ways to show it."""

    chart: Picture

    def save(self, path: str | Path, theme: str = "light") -> Path:
        """Write .svg .png .pdf .html .json .csv or .md; the suffix decides."""
        return files.save(self.chart, path, theme)

    def text(self, width: int = 80, height: int = 22, ascii: bool = False, colour: bool = False) -> str:
        """The chart as text for a terminal."""
        return terminal.draw(self.chart, width, height, ascii, colour)

    def svg(self, theme: str = "light") -> str:
        return mpl.svg(self.chart, theme)

    def document(self) -> Any:
        """Plain values for JSON."""
        return document(self.chart)

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Column names and rows of the data behind the chart."""
        return self.chart.table()

    def _repr_html_(self) -> str:
        source = self.svg()
        return source[source.index("<svg") :]

    def __repr__(self) -> str:
        return f"{self.chart.title}: .save('chart.svg') writes it, print() draws it in the terminal"

    def __str__(self) -> str:
        return self.text()


def plot(
    machine: Machine | str | Path,
    predictions: Prediction | Iterable[Prediction] = (),
    kind: str = "roofline",
    **options: Any,
) -> Figure:
    """The roofline of a machine (or the one of a name) with predictions on it; `kind` names another chart of `charts.CHARTS`, `options` are its own.

    `rl.plot(h200, [p]).save("gemm.svg")`
    """
    if kind == "roofline":
        options = {"predictions": predictions, **options}
    return Figure(find(kind)(as_machine(machine), **options))
