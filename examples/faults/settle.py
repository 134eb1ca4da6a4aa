"""The recorded profiles against the sealed predictions: the ledger, the report, and what each cure brought. Needs no GPU.

python settle.py FOLDER          settles the seal in FOLDER/ledger.sqlite, then writes the report
python settle.py FOLDER --again  writes the report alone
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.app.reports.gaps import gap_report
from ridgeline.core.documents import to_document
from ridgeline.core.files import write_text
from ridgeline.gaps import settle as records
from ridgeline.gaps.ledger import open_ledger
from ridgeline.gaps.report import Report, reconcile
from ridgeline.machines.load import load
from ridgeline.prediction.host import GRAPH, ONE_BY_ONE
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe
from ridgeline.programs.cases import program
from ridgeline.render.charts.gaps import report_chart
from ridgeline.render.draw import files
from ridgeline.render.tables.gaps import report_tables

PROFILES = ("kernels.csv", "trace.json.gz")


@dataclass(frozen=True)
class Fault:
    """A planted fault: the step that has it, the rule that should be on top of its advice, and what was timed."""

    step: str
    rule: str
    before: tuple[str, ...]  # timed together
    after: str
    sent: str = ""  # how what was timed before was sent: the host is part of that time only where it sent each kernel


FAULTS = (
    Fault("uncoalesced_copy", "uncoalesced", ("uncoalesced_copy",), "coalesced_copy"),
    Fault("naive_gemm", "no tiling", ("naive_gemm",), "tiled_gemm"),
    Fault("bank_conflicts", "bank conflicts", ("bank_conflicts",), "padded"),
    Fault("low_occupancy", "low occupancy", ("low_occupancy",), "full_occupancy"),
    Fault("spills", "spills", ("spills",), "in_registers"),
    # The same two thousand kernels: a graph sends them without the host in between.
    Fault("tiny_kernels", "tiny kernels", ("graph",), "one_kernel", GRAPH),
    Fault("tiny_kernels", "tiny kernels", ("tiny_kernels",), "one_kernel", ONE_BY_ONE),
    Fault("unfused.norm", "unfused neighbour", ("unfused.norm", "unfused.linear"), "fused"),
    Fault("fp32_gemm", "no tensor cores", ("fp32_gemm",), "tf32_gemm"),
    Fault("contended_atomics", "contended atomics", ("contended_atomics",), "block_sums"),
    Fault("contended_histogram", "contended atomics", ("contended_histogram",), "shared_histogram"),
    Fault("hot_slice", "hot slice", ("hot_slice",), "shared_table"),
    Fault("tail_wave", "tail wave", ("tail_wave",), "full_wave"),
    Fault("legacy_tensor", "legacy tensor path", ("legacy_tensor",), "current_tensor"),
    Fault("thin_loads", "thin loads", ("thin_loads",), "wide_loads"),
    Fault("few_in_flight", "few in flight", ("few_in_flight",), "many_in_flight"),
    Fault("divergence", "divergence", ("divergence",), "convergence"),
    Fault("redundant_loads", "repeated loads", ("redundant_loads",), "single_load"),
    Fault("strided_gather", "uncoalesced", ("strided_gather",), "dense_gather"),
    Fault("no_prefetch", "no overlap", ("no_prefetch",), "prefetch"),
    Fault("excess_flops", "extra flops", ("excess_flops",), "lower_only"),
    Fault("index_math", "integer overhead", ("index_math",), "grid_index"),
    Fault("barriers", "barriers", ("barriers",), "warp_sums"),
    Fault("few_blocks", "few blocks", ("few_blocks",), "split_rows"),
    Fault("small_blocks", "small blocks", ("small_blocks",), "large_blocks"),
)


def judge(folder: Path) -> Report:
    """All profiles of the record against the predictions of its seal."""
    seal = open_ledger(folder / "ledger.sqlite").find(_seal(folder))
    rows = [{**row, **row["shape"]} for row in seal.predictions]
    seen = [item for name in PROFILES for item in observe.load(folder / name)]
    prediction = predict(program(rows), load(seal.machine["name"]))
    return reconcile(prediction, seen, sealed={"id": seal.id, "time": seal.time})


def _seal(folder: Path) -> str:
    """The hash of the last seal."""
    book = open_ledger(folder / "ledger.sqlite").export()
    return str([record["hash"] for record in book if record["kind"] == "seal"][-1])


def times(folder: Path) -> dict[str, float]:
    """Seconds by name, as CUDA events took them."""
    with (folder / "times.csv").open(encoding="utf-8", newline="") as file:
        return {row["name"]: float(row["time_us"]) / 1e6 for row in csv.DictReader(file)}


def gains(report: Report, measured: Mapping[str, float]) -> list[dict[str, object]]:
    """For every fault what its top advice promised and what the cure brought."""
    found: list[dict[str, object]] = []
    for fault in FAULTS:
        top = next(item.top for item in report.items if item.name == fault.step)
        assert top is not None
        assert top.device is not None
        host = (top.host or 0.0) if fault.sent == ONE_BY_ONE else 0.0
        promised = top.device + host
        before, after = sum(measured[name] for name in fault.before), measured[fault.after]
        found.append(
            {
                "fault": fault.step,
                "rule": top.rule,
                "move": top.move,
                "sent": fault.sent,
                "predicted_gain_us": f"{promised * 1e6:.1f}",
                "of_it_host_us": f"{host * 1e6:.1f}",
                "before": " + ".join(fault.before),
                "after": fault.after,
                "before_us": f"{before * 1e6:.1f}",
                "after_us": f"{after * 1e6:.1f}",
                "measured_gain_us": f"{(before - after) * 1e6:.1f}",
                "ratio": f"{promised / (before - after):.3f}",
            }
        )
    return found


def settle(folder: Path) -> None:
    """Settle the seal with each profile, with the time its own file has."""
    book = open_ledger(folder / "ledger.sqlite")
    seal = book.find(_seal(folder))
    for name in PROFILES:
        if broken := records.settle(book, seal, observe.load(folder / name), None, (folder / name,)).broken:
            raise SystemExit(f"{name} was not settled: {broken}")


def write(folder: Path) -> None:
    report = judge(folder)
    document = to_document(report)
    write_text(folder / "report.json", json.dumps(document, indent=1) + "\n")
    gap_report(report, report_tables(report), document, folder / "report.html")
    files.save(report_chart(report), folder / "gaps.svg", "light")
    write_text(folder / "predictions.md", open_ledger(folder / "ledger.sqlite").markdown())
    rows = gains(report, times(folder))
    text = io.StringIO()
    table = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(folder / "gains.csv", text.getvalue())


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0])
    if "--again" not in arguments:
        settle(folder)
    write(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
