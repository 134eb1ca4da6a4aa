"""Reports: one offline HTML page of a gap report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..gaps.report import Report
from ..render.charts.gaps import report_chart
from ..render.draw import report as report_page
from ..render.table import Table


def gap_report(report: Report, tables: Sequence[Table], document: Any, out: Path) -> None:
    """The gap report as one offline file."""
    drawable = any(item.gap.target.flops for item in report.items)
    pictures = [report_chart(report)] if drawable else []
    sections = [
        report_page.Section("What came out", report.sentence, pictures, tables[:1]),
        report_page.Section("Where the time went", "", (), tables[1:2]),
        *([report_page.Section("What to do next", "", (), tables[2:])] if tables[2:] else []),
    ]
    report_page.write(out, f"ridgeline: gaps on {report.prediction.machine.name}", sections, document)
