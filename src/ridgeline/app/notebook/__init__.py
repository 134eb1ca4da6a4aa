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
    """Give predictions, charts and tables the method by which notebooks show them."""
    from ...prediction.predict import Prediction
    from ...render.chart import Chart, Panel
    from ...render.table import Table
    from . import html

    methods = {Prediction: html.prediction, Chart: html.page, Panel: html.page, Table: html.page}
    for kind, method in methods.items():
        setattr(kind, "_repr_html_", method)  # noqa: B010  lower packages know nothing of notebooks
