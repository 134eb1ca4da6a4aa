"""What to collect next: the command for the kernel that matters, with the metrics that decide its open causes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ridgeline.app.collect import collect_next, command, undecided
from ridgeline.core.observation import Observation
from ridgeline.gaps.kernels import KernelReport, report_of_kernels
from ridgeline.machines.load import load
from ridgeline.profilers import load as observe
from ridgeline.profilers.ncu.metrics import metrics_for

NCU = Path(__file__).parents[1] / "fixtures" / "ncu"
H200 = load("h200-sxm")


def details() -> KernelReport:
    return report_of_kernels(observe.load(NCU / "h200_details.csv"), H200)


def test_the_command_asks_for_what_is_missing_and_no_more() -> None:
    kernel = next(item for item in details().kernels if undecided(item))
    words = command(kernel)
    assert words[0] == "ncu"
    asked = words[words.index("--metrics") + 1].split(",")
    assert asked[0] == "gpu__time_duration.sum"
    assert set(asked[1:]) <= set(metrics_for("diagnosis"))
    assert words[words.index("--launch-count") + 1] == "1"
    pattern = words[words.index("--kernel-name") + 1].removeprefix("regex:")
    assert re.search(pattern, kernel.kernel)


def test_the_printed_lines_are_one_command() -> None:
    (text,) = collect_next(details())
    head, *lines = text.splitlines()
    assert head.startswith("collect next, for ")
    assert max(map(len, lines)) <= 120
    kernel = next(item for item in details().kernels if item.name in head)
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == command(kernel)


def test_nothing_is_asked_for_where_causes_are_shown_or_on_a_cpu() -> None:
    record = Path(__file__).parents[2] / "examples" / "faults" / "record" / "kernels.csv"
    planted = [item for item in observe.load(record) if item.name in ("thin_loads", "hot_slice")]
    assert collect_next(report_of_kernels(planted, H200)) == []
    item = Observation("triad", "triad", (1e-2,), bytes={"main": 1e8}, flops={"vector.fp64": 1e7}, tool="perf")
    assert collect_next(report_of_kernels([item], load("xeon-8480plus"))) == []
