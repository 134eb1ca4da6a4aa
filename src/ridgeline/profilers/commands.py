"""The command lines that make profilers write what ridgeline reads; each says why it is as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.errors import InputError
from .ncu.metrics import HOPPER, metrics_for
from .perf import FLOPS

USES = ("roofline", "diagnosis", "full")


@dataclass(frozen=True)
class Command:
    """`words` for subprocess, `out` the file to import afterwards, `why` for people."""

    words: list[str]
    out: str
    why: str


def ncu(
    program: Sequence[str],
    out: str = "kernels.csv",
    use: str = "diagnosis",
    capability: float = HOPPER,
    kernel: str = "",
    launches: int = 0,
    tool: str = "ncu",
    metrics: Sequence[str] = (),
) -> list[Command]:
    """Nsight Compute over a program: `kernel` keeps names that match, `launches` stops after so many kernels.

    `metrics` are collected in place of those of a use.
    """
    if use not in USES:
        raise InputError(f"'{use}' is not a set of counters; choose {', '.join(USES)}")
    asked = ",".join(metrics or metrics_for(use, capability))
    counters = ["--set", "full"] if use == "full" and not metrics else ["--metrics", asked]
    kept = ["--kernel-name", f"regex:{kernel}"] if kernel else []
    kept += ["--launch-count", str(launches)] if launches else []
    words = [
        tool, "--target-processes", "all", "--nvtx", "--clock-control", "none", "--cache-control", "all", "--replay-mode", "kernel",
        *counters, *kept, "--csv", "--page", "raw", "--print-units", "base", "--log-file", out, *_required(program),
    ]  # fmt: skip
    why = (
        "clocks are left alone, so that times are those of a normal run; caches are emptied before each replay, so that "
        "traffic is that of cold caches; ranges name the kernels; base units lose no digits"
    )
    return [Command(words, out, why)]


FP_EVENTS = tuple(event for event in FLOPS if event.startswith("fp_arith_inst_retired."))
MEMORY_EVENTS = ("uncore_imc/cas_count_read/", "uncore_imc/cas_count_write/")


def perf(program: Sequence[str], out: str = "perf.csv", memory: bool = False) -> list[Command]:
    """`perf stat` over a program; `memory` counts the memory controllers too, which sees the whole machine."""
    events = ["duration_time", "task-clock", *FP_EVENTS, *(MEMORY_EVENTS if memory else ())]
    everywhere = ["-a"] if memory else []
    words = ["perf", "stat", "-x,", "-o", out, *everywhere, "-e", ",".join(events), "--", *_required(program)]
    why = "duration_time is the wall time; each width of vector is an event of its own and counts by its elements"
    if memory:
        why += "; memory controllers belong to no program, so all of the machine is counted (-a)"
    return [Command(words, out, why)]


def likwid(program: Sequence[str], out: str = "likwid.csv", cores: str = "N:0", group: str = "MEM_DP", marked: bool = False) -> list[Command]:  # fmt: skip
    """`likwid-perfctr` over a program pinned to `cores`; `marked` where the program marks its regions."""
    marks = ["-m"] if marked else []
    words = ["likwid-perfctr", "-C", cores, "-g", group, *marks, "-O", "-o", out, *_required(program)]
    return [Command(words, out, f"{group} counts flops and memory traffic in one run, on threads pinned to {cores}")]


def advisor(program: Sequence[str], out: str = "advisor.csv", project: str = "advisor") -> list[Command]:
    """Intel Advisor: survey and characterisation with the memory levels, then the report as a table."""
    why = "survey gives times, the second run operations and the traffic of each cache level"
    folder = f"--project-dir={project}"
    report = ["advisor", "--report=survey", folder, "--show-all-columns", "--format=csv", f"--report-output={out}"]
    counts = ["advisor", "--collect=tripcounts", "--flop", "--enable-cache-simulation", folder, "--", *program]
    return [
        Command(["advisor", "--collect=survey", folder, "--", *_required(program)], "", why),
        Command(counts, "", why),
        Command(report, out, "one row per loop, self time and self counts apart from those of callees"),
    ]


def rocprof(program: Sequence[str], out: str = "workloads", name: str = "ridgeline") -> list[Command]:
    """rocprof-compute: the counters of its roofline only; the table is pmc_perf.csv in the folder of the workload."""
    words = ["rocprof-compute", "profile", "--name", name, "--path", out, "--roof-only", "--", *_required(program)]
    return [Command(words, f"{out}/pmc_perf.csv", "--roof-only collects the counters of flops and bytes and no others")]


def _required(program: Sequence[str]) -> list[str]:
    if not program:
        raise InputError("no program to profile; write it after --, such as -- python script.py")
    return list(program)


_ALL: tuple[Callable[..., list[Command]], ...] = (ncu, perf, likwid, advisor, rocprof)
COMMANDS = {command.__name__: command for command in _ALL}
