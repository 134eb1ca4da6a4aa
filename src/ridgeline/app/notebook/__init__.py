"""Notebooks: results as HTML that follows the notebook's theme, and `%%roofline`, which times a cell and draws it.

    %load_ext ridgeline
    %%roofline --on h200-sxm
    model(x)

Drawing needs matplotlib; without it the picture is the one of the terminal.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Registers `%%roofline` and lets results draw themselves."""
    from .magic import register

    hook()
    register(shell)


def hook() -> None:
    """Give results, machines, charts and tables the method by which notebooks show them."""
    from ...core.machine import Machine
    from ...gaps.report import Report
    from ...prediction.predict import Prediction
    from ...prediction.traced import ProgramPrediction
    from ...render.chart import Chart, Panel
    from ...render.table import Table
    from . import html

    results = {Prediction: html.prediction, ProgramPrediction: html.program, Report: html.report, Machine: html.machine}
    for kind, method in {**results, Chart: html.page, Panel: html.page, Table: html.page}.items():
        setattr(kind, "_repr_html_", method)  # noqa: B010  lower packages know nothing of notebooks
