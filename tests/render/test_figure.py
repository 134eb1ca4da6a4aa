"""`plot`: a chart that shows itself."""

from __future__ import annotations

from pathlib import Path

import ridgeline as rl
from pictures import A100, H100
from ridgeline.programs import ops
from ridgeline.render.figure import plot


def test_plot_shows_itself(tmp_path: Path) -> None:
    prediction = rl.predict(ops.gemm(m=4096, n=14336, k=4096, dtype="bf16"), H100)
    figure = plot(H100, [prediction])
    assert figure.save(tmp_path / "gemm.svg") == tmp_path / "gemm.svg"
    assert figure._repr_html_().startswith("<svg")
    assert "gemm 4096x14336x4096" in figure.text(width=100)
    assert str(figure) == figure.text()
    assert figure.document() == figure.chart.document()
    assert figure.table()[1]
    assert plot(H100, prediction).document() == figure.document()
    assert plot(H100).chart.charts[0].lines  # bare roofs
    assert plot(A100, kind="batch").chart.kind == "batch"
