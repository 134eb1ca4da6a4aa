"""Collect this next: the counters that would decide the possible causes of the kernel that matters, as a command."""

from __future__ import annotations

import re
import shlex

from ..gaps.kernels import KernelReport, ProfiledKernel
from ..gaps.signs import CPU, counters_of
from ..profilers.commands import ncu
from ..profilers.ncu.metrics import HOPPER, metrics_of_counters

MIN_SHARE_OF_TIME = 0.05  # of the report, from which a kernel matters
MIN_UNDECIDED_GAIN = 0.1  # of the time of a kernel, from which a cause is worth deciding
MAX_CAUSES = 3  # that a command decides
WIDTH = 116
TIME = "gpu__time_duration.sum"
PROGRAM = ("python", "script.py")


def collect_next(report: KernelReport) -> list[str]:
    """The command for the longest kernel whose causes are not decided, as lines; none where all are, or on a CPU."""
    if report.machine.kind == CPU:
        return []
    for kernel in report.kernels:
        if kernel.time >= MIN_SHARE_OF_TIME * report.time and (causes := undecided(kernel)):
            decided = ", ".join(dict.fromkeys(causes))
            head = f"collect next, for {kernel.name} ({decided}):"
            return ["\n".join([_clip(head), *_folded(command(kernel))])]
    return []


def undecided(kernel: ProfiledKernel) -> dict[str, tuple[str, ...]]:
    """The first possible causes that counters would decide, each with the counters it lacks."""
    if kernel.top is not None and kernel.top.shown:
        return {}
    causes: dict[str, tuple[str, ...]] = {}
    capability = _capability(kernel)
    for item in kernel.advice:
        lacking = tuple(dict.fromkeys(counter for figure in item.missing for counter in counters_of(figure)))
        lacking = tuple(
            name for name in lacking if name not in kernel.typical.counters and metrics_of_counters([name], capability)
        )
        worth = item.gain is None or item.gain >= MIN_UNDECIDED_GAIN * kernel.typical.median
        if lacking and worth:
            causes[item.name] = lacking
    return dict(list(causes.items())[:MAX_CAUSES])


def command(kernel: ProfiledKernel) -> list[str]:
    """Nsight Compute over one launch of the kernel, with the metrics that decide its possible causes."""
    counters = [name for names in undecided(kernel).values() for name in names]
    metrics = metrics_of_counters(counters, _capability(kernel))
    [made] = ncu(PROGRAM, kernel=_pattern(kernel), launches=1, metrics=(TIME, *metrics))
    return made.words


def _capability(kernel: ProfiledKernel) -> float:
    return _number(kernel.typical.conditions.get("compute_capability")) or HOPPER


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _pattern(kernel: ProfiledKernel) -> str:
    """The name of the function without namespace and template, as Nsight Compute matches it."""
    plain = re.split(r"[<(]", kernel.kernel.removeprefix("void "), maxsplit=1)[0].strip()
    return re.sub(r"\W", ".", plain.rpartition("::")[2]) or "."


def _clip(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _folded(words: list[str]) -> list[str]:
    """A command over several lines, each of which a shell continues; a list of metrics breaks at its commas."""
    lines, line = [], " "
    for word in words:
        quoted = word if re.fullmatch(r"[\w,.:/=-]+", word) else shlex.quote(word)
        for place, part in enumerate(re.findall(r"[^,]+,?", quoted)):
            joined = place > 0
            if len(line) + len(part) + 3 > WIDTH:
                lines.append(line + ("\\" if joined else " \\"))
                line = part if joined else f"  {part}"
            else:
                line += part if joined else f" {part}"
    return [*lines, line]
