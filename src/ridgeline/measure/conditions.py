"""Under which conditions a measurement was made, as plain JSON values, and whether its samples are noisy."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.notes import DRIFT, NOISE, Note
from ..core.statistics import median, median_deviation

CPUS = Path("/sys/devices/system/cpu")
DATA = "random, nearly normal (mean 0, deviation 1); arithmetic probes: small exact constants"
MAX_OTHERS_BUSY = 0.15  # CPUs that other processes may use before it is called a load
MAX_STOLEN = MAX_OTHERS_BUSY / 3
MIN_SAMPLES = 6  # fewer show neither a drift nor two groups
DRIFT_DEVIATIONS = 3.0  # by which the halves of a series must differ to be called a drift
GROUP_DEVIATIONS = 4.0  # by which two groups of samples must lie apart to be called two
MIN_CHANGE = 0.05  # of the median, for either: less is the resolution of any timer


def now() -> str:
    """The date in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _text(path: Path | str) -> str:
    with contextlib.suppress(OSError, ValueError):
        return Path(path).read_text(encoding="utf-8", errors="replace").strip("\0 \n")
    return ""


def load_average() -> list[float] | None:
    with contextlib.suppress(OSError, AttributeError):
        return [round(value, 2) for value in os.getloadavg()]
    return None


def busy_seconds() -> dict[str, float] | None:
    """CPU seconds of the system since it started, busy and stolen by the hypervisor; None where it does not say."""
    words = _text("/proc/stat").partition("\n")[0].split()
    if len(words) < 9 or words[0] != "cpu":
        return None
    ticks = [float(word) for word in words[1:9]]
    hertz = float(os.sysconf("SC_CLK_TCK"))
    user, nice, system, _, _, irq, softirq, steal = ticks
    return {"busy": (user + nice + system + irq + softirq) / hertz, "stolen": steal / hertz}


def own_seconds() -> float:
    """CPU seconds of this process, its threads and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def waited() -> float | None:
    """Seconds that threads of this process were ready to run and waited for a core; None where it is not known."""
    waits: list[float] = []
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            words = _text(f"/proc/self/task/{task}/schedstat").split()
            if len(words) == 3:
                waits.append(float(words[1]) * 1e-9)
    return sum(waits) if waits else None


class Usage(NamedTuple):
    """Seconds that the threads of this process ran, and seconds that they were ready to run and waited for a core."""

    ran: float
    waited: float

    def share(self, later: Usage) -> float:
        """The share of the time between two moments in which threads that were ready to run really ran; 1 where none was."""
        ran, waits = later.ran - self.ran, later.waited - self.waited
        return ran / (ran + waits) if ran > 0 and waits > 0 else 1.0


def usage() -> Usage | None:
    """Of the entire process, with the threads that a library keeps; None where the system does not say."""
    waits = waited()
    return None if waits is None else Usage(time.process_time(), waits)


def clocks() -> dict[str, float]:
    """Clocks in Hz the system shows at this moment: highest allowed, and running now."""
    hertz: dict[str, float] = {}
    for key, name in (("highest", "cpuinfo_max_freq"), ("now", "scaling_cur_freq")):
        values = [
            float(text) * 1e3 for path in CPUS.glob(f"cpu[0-9]*/cpufreq/{name}") if (text := _text(path)).isdigit()
        ]
        if values:
            hertz[key] = max(values)
    if "now" not in hertz:
        rows = (line for line in _text("/proc/cpuinfo").splitlines() if line.lower().startswith("cpu mhz"))
        with contextlib.suppress(ValueError):  # no rows, or no number
            hertz["now"] = max(float(row.partition(":")[2]) for row in rows) * 1e6
    return hertz


def large_pages() -> str:
    """The transparent huge page setting, the chosen word of `always [madvise] never`."""
    text = _text("/sys/kernel/mm/transparent_hugepage/enabled")
    return text[text.find("[") + 1 : text.find("]")] if "[" in text else ""


def cpu_conditions(
    model: str = "",
    pinned: bool | None = None,
    compiler: str = "",
    flags: str = "",
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What is known before the run; what the system does not report is absent."""
    governors = sorted({_text(path) for path in CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""})
    nodes = [path for path in Path("/sys/devices/system/node").glob("node[0-9]*") if path.is_dir()]
    known: dict[str, Any] = {
        "date": now(), "cpu": model or platform.processor() or platform.machine(), "system": platform.platform(),
        "governor": ", ".join(governors), "clocks": clocks(), "cpus": allowed_cpus(), "pinned": pinned, "compiler": compiler,
        "flags": flags, "numa_nodes": len(nodes) or None, "large_pages": large_pages(), "load_before": load_average(),
        "python": sys.version.partition(" ")[0], "numpy": np.__version__, "data": DATA,
    }  # fmt: skip
    known |= extra or {}
    return {key: value for key, value in known.items() if value not in (None, "", {}, [])}


def allowed_cpus() -> int:
    with contextlib.suppress(AttributeError, OSError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Watch:
    """The load of the system from before to after a run, without that of this process."""

    def __init__(self) -> None:
        self.start, self.own_start = busy_seconds(), own_seconds()
        self.wall = os.times().elapsed

    def conditions(self) -> dict[str, Any]:
        """CPUs used by other processes and stolen by the hypervisor on average; load average after."""
        after: dict[str, Any] = {"load_after": load_average()}
        end, wall = busy_seconds(), os.times().elapsed - self.wall
        if self.start and end and wall > 0:
            others = (end["busy"] - self.start["busy"] - (own_seconds() - self.own_start)) / wall
            after["others_busy"] = round(max(others, 0.0), 3)
            after["stolen"] = round(max(end["stolen"] - self.start["stolen"], 0.0) / wall, 3)
        return {key: value for key, value in after.items() if value is not None}


def second_load(conditions: Mapping[str, Any]) -> str:
    """One sentence when other processes or the hypervisor used a notable share of the machine, else an empty text."""
    texts = []
    if conditions.get("others_busy", 0.0) > MAX_OTHERS_BUSY:
        texts.append(f"other processes used {conditions['others_busy']:.2g} CPUs on average")
    if conditions.get("stolen", 0.0) > MAX_STOLEN:
        texts.append(f"steal time {conditions['stolen']:.2g} CPUs on average")
    return f"loaded machine: {'; '.join(texts)}" if texts else ""


def noise_note(samples: Sequence[float], preempted: int = 0) -> Note | None:
    """A note where the samples are noisy: preempted (NOISE), or with a drift or two groups among them (DRIFT).

    A drift or a second group counts beyond what the scatter within the halves or groups explains.
    """
    texts = []
    if preempted:
        texts.append(f"{preempted} sample{'s' if preempted > 1 else ''} preempted")
    unsteady = _drift_or_groups(np.asarray(samples, dtype=np.float64))
    if unsteady:
        texts.append(unsteady)
    return Note(DRIFT if unsteady else NOISE, f"noisy: {'; '.join(texts)}") if texts else None


def _drift_or_groups(values: NDArray[np.float64]) -> str:
    if len(values) < MIN_SAMPLES:
        return ""
    middle, half = median(values), len(values) // 2
    first, second = values[:half], values[-half:]
    change = median(second) - median(first)
    within = max(median_deviation(first), median_deviation(second))
    if abs(change) > max(DRIFT_DEVIATIONS * within, MIN_CHANGE * middle):
        direction = "slower" if change > 0 else "faster"
        return f"drift: the second half is {100 * abs(change) / middle:.0f} % {direction} than the first"
    if distance := _group_distance(np.sort(values), middle):
        return f"bimodal: two groups {100 * distance:.0f} % apart"
    return ""


def _group_distance(ordered: NDArray[np.float64], middle: float) -> float:
    """How far apart two groups of at least two samples lie, relative to the median; 0 where there is one group."""
    gaps = np.diff(ordered)
    place = int(np.argmax(gaps[1:-1])) + 2  # at least two samples on each side
    low, high = ordered[:place], ordered[place:]
    distance = median(high) - median(low)
    within = max(median_deviation(low), median_deviation(high), median(gaps))
    return distance / middle if distance > max(GROUP_DEVIATIONS * within, MIN_CHANGE * middle) else 0.0
