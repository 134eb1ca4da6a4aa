"""What the ranks of a job reach together: collectives over sizes, latency and bandwidth fitted, slow ranks named.

    time = alpha + sent / beta        sent: bytes per rank and direction of the ring algorithm, so beta is bus bandwidth

Runs in every rank under `torchrun`, on gloo between CPUs or nccl between GPUs; the slowest rank counts. Rank 0 gets the
observations, the others an empty list.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np

from ..core.errors import InputError, RidgelineError, first_line
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.version import __version__
from ..core.work import LINK, WRITE, Work
from .cuda.conditions import now
from .protocol import REAL, Clock, Progress, disturbed

KIB, MIB = 1 << 10, 1 << 20
ELEMENT = 4  # fp32
HEAD = 32  # elements of every part that are compared with what they should be
PATIENCE = timedelta(seconds=120)  # how long a rank waits for the others before it gives up
SLOW = 0.8  # a rank below this share of the median, or a link below this share of the best of its kind, is a straggler
LOCAL_SECONDS = 0.01  # of one sample of what a rank does by itself
LINK_SECONDS = 0.03  # of one sample of a link, so that what buffers on the way take does not pass for its bandwidth
GROWTH = 30.0  # powers of ten a sum may grow by before the buffer is filled again: all_reduce works in place

# bytes a rank sends, as a share of the whole buffer, by the ring algorithm; steps that follow one another
SENT: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "all_to_all": lambda ranks: (ranks - 1) / ranks,
    "p2p": lambda ranks: 1.0,
}


@dataclass(frozen=True)
class Line:
    """t = alpha + sent / beta, fitted to relative errors."""

    alpha: float
    beta: float
    error: float  # root mean square of the relative errors


def fit(sent: Sequence[float], times: Sequence[float]) -> Line | None:
    """Least squares with each time weighed by itself, so that small messages count as much as large ones."""
    if len(set(sent)) < 3:
        return None
    x, t = np.asarray(sent, dtype=np.float64), np.asarray(times, dtype=np.float64)
    table = np.column_stack([1 / t, x / x.max() / t])
    (alpha, slope), _, _, _ = np.linalg.lstsq(table, np.ones_like(t), rcond=None)
    if slope <= 0:
        return None
    error = float(np.sqrt(np.mean((table @ [alpha, slope] - 1) ** 2)))
    return Line(float(alpha), float(x.max() / slope), error)


def stragglers(rates: Sequence[float], names: Sequence[str], what: str) -> list[str]:
    """A sentence for each rank clearly slower than the middle one."""
    middle = float(np.median(rates))
    return [
        f"{name} is a straggler: its {what} is {rate / middle:.0%} of the median"
        for name, rate in zip(names, rates, strict=True)
        if rate < SLOW * middle
    ]


def slow_links(links: Sequence[Link]) -> list[str]:
    """A sentence for each link clearly slower than the best of its kind, within a host or between hosts.

    Not the median: one slow host has two slow links, and of three that is the middle one.
    """
    best: dict[bool, float] = {}
    for link in links:
        best[link.within] = max(link.bandwidth, best.get(link.within, 0.0))
    kinds = {True: "within a host", False: "between hosts"}
    return [
        f"{link.name} is a straggler: its bandwidth is {link.bandwidth / best[link.within]:.0%} of the best {kinds[link.within]}"
        for link in links
        if link.bandwidth < SLOW * best[link.within]
    ]


@dataclass(frozen=True)
class Link:
    """The way from one rank to the next; `within` one host or between two."""

    name: str
    within: bool
    bandwidth: float


@dataclass
class Group:
    """The ranks of this job and how they talk."""

    torch: Any
    rank: int
    ranks: int
    device: Any
    backend: str
    clock: Clock
    started: bool = False
    notes: tuple[str, ...] = ()

    @property
    def dist(self) -> Any:
        return self.torch.distributed

    def wait(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def everyone(self, value: float) -> list[float]:
        """The value of every rank, at every rank."""
        mine = self.torch.tensor([value], dtype=self.torch.float64, device=self.device)
        all_of_them = [self.torch.empty_like(mine) for _ in range(self.ranks)]
        self.dist.all_gather(all_of_them, mine)
        return [float(each.item()) for each in all_of_them]

    def objects(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.ranks
        self.dist.all_gather_object(found, value)
        return found

    def seconds(self, work: Callable[[], None]) -> float:
        """Seconds of the work at this rank, all ranks having begun together."""
        self.wait()
        self.dist.barrier()
        start = self.clock.now()
        work()
        self.wait()
        return self.clock.now() - start


def join(clock: Clock = REAL) -> Group:
    """The group `torchrun` made; InputError says how to start it where there is none."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        raise InputError(
            "measuring collectives needs torch, which is not installed; install ridgeline[torch]"
        ) from error
    how = "torchrun --nproc-per-node 2 -m ridgeline measure collective"
    if not dist.is_available():
        raise InputError("this torch was built without torch.distributed, so there are no collectives to measure")
    if not dist.is_initialized() and not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= set(os.environ):
        raise InputError(f"collectives are measured between ranks that torchrun starts: {how}")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = count >= here
    notes = () if gpus or not count else (f"{count} GPUs for {here} ranks of this host: measured between CPUs instead",)
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    backend = "nccl" if gpus else "gloo"
    started = not dist.is_initialized()
    if started:
        if gpus:
            torch.cuda.set_device(device)
        try:
            # one operation at a time is what is timed here, so that NCCL's advice on sending side by side does not apply
            os.environ.setdefault("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false")
            # naming the device connects at once and in one communicator; without it NCCL guesses and warns
            dist.init_process_group(backend, timeout=PATIENCE, device_id=device if gpus else None)
        except Exception as error:
            raise InputError(f"the ranks could not be joined with {backend}: {first_line(error)}") from error
    group = Group(torch, dist.get_rank(), dist.get_world_size(), device, str(dist.get_backend()), clock, started, notes)
    if group.ranks < 2:
        leave(group)
        raise InputError(f"a collective needs at least 2 ranks, this job has {group.ranks}: {how}")
    return group


def newest(module: Any, *names: str) -> Any:
    """The first of these functions there is: torch renames, and warns of the old name for as long as it has both."""
    return next(getattr(module, name) for name in names if hasattr(module, name))


def leave(group: Group) -> None:
    if group.started and group.dist.is_initialized():
        group.dist.destroy_process_group()


# -- one collective at one size --------------------------------------------------------------------------------


@dataclass
class Point:
    """One collective over a buffer of `size` bytes, its data, its answer and its samples (the slowest rank's)."""

    group: Group
    op: str
    size: int
    samples: list[float] = field(default_factory=list)
    loops: int = 1
    slowest: list[int] = field(default_factory=list)  # the rank that took longest, sample by sample

    def __post_init__(self) -> None:
        torch, group = self.group.torch, self.group
        self.part = max(1, self.size // ELEMENT // group.ranks)
        self.count = self.part * group.ranks
        generator = torch.Generator().manual_seed(100 + group.rank)
        self.base = torch.randn(self.count, generator=generator).to(group.device)
        self.buffer = self.base.clone()
        self.out = torch.empty(self.part if self.op == "reduce_scatter" else self.count, device=group.device)

    @property
    def bytes(self) -> int:
        return self.count * ELEMENT

    @property
    def sent(self) -> float:
        return SENT[self.op](self.group.ranks) * self.bytes

    @property
    def in_place(self) -> bool:
        return self.op == "all_reduce"

    def once(self) -> None:
        dist, group = self.group.dist, self.group
        if self.op == "all_reduce":
            dist.all_reduce(self.buffer)
        elif self.op == "all_gather":
            mine = self.base[group.rank * self.part : (group.rank + 1) * self.part]
            newest(dist, "all_gather_single", "all_gather_into_tensor")(self.out, mine)
        elif self.op == "reduce_scatter":
            newest(dist, "reduce_scatter_single", "reduce_scatter_tensor")(self.out, self.base)
        elif self.op == "all_to_all":
            dist.all_to_all_single(self.out, self.base)
        else:
            self.ping_pong(0, 1)

    def ping_pong(self, first: int, second: int) -> None:
        """From one rank to another and back; the others stand by."""
        dist, rank = self.group.dist, self.group.rank
        if rank == first:
            dist.send(self.base, second)
            dist.recv(self.out, second)
        elif rank == second:
            dist.recv(self.out, first)
            dist.send(self.out, first)

    def run(self, loops: int) -> float:
        """Seconds of so many calls at this rank; a buffer summed in place is filled again before it overflows."""
        most = max(1, int(GROWTH / np.log10(self.group.ranks))) if self.in_place else loops
        spent, left = 0.0, loops
        while left:
            chunk = min(left, most)
            if self.in_place:
                self.buffer.copy_(self.base)

            def work(chunk: int = chunk) -> None:
                for _ in range(chunk):
                    self.once()

            spent += self.group.seconds(work)
            left -= chunk
        return spent / (2 if self.op == "p2p" else 1)

    def calibrate(self, least: float) -> None:
        """As many loops as the slowest rank needs for `least` seconds; all ranks agree on it."""
        self.run(2)
        took = max(self.group.everyone(self.run(2))) / 2
        self.loops = int(min(10_000, max(1, np.ceil(least / max(took, 1e-7)))))

    def sample(self) -> None:
        took = self.group.everyone(self.run(self.loops) / self.loops)
        taking_part = took[:2] if self.op == "p2p" else took
        self.samples.append(max(taking_part))
        self.slowest.append(int(np.argmax(taking_part)))

    def check(self) -> None:
        """Compare the head of every part with what the ranks' own data say it must be."""
        group = self.group
        head = min(HEAD, self.part)
        heads = group.objects(self.base.view(group.ranks, self.part)[:, :head].double().cpu().numpy())
        everything = np.stack(heads)  # [rank, part, element]
        if self.in_place:
            self.buffer.copy_(self.base)
        self.once()
        group.wait()
        result = self.buffer if self.in_place else self.out
        found = result.view(-1, self.part)[:, :head].double().cpu().numpy()
        if self.op == "all_reduce":
            asked = everything.sum(axis=0)
        elif self.op == "all_gather":
            asked = np.stack([everything[rank, rank] for rank in range(group.ranks)])
        elif self.op == "reduce_scatter":
            asked = everything[:, group.rank].sum(axis=0)[None]
        elif self.op == "all_to_all":
            asked = everything[:, group.rank]
        else:
            asked = everything[0] if group.rank < 2 else found
        right = bool(np.allclose(found, asked, rtol=1e-5, atol=1e-5))
        if min(group.everyone(float(right))) < 1:
            raise RidgelineError(f"probe {self.op} of {self.bytes} B: wrong values arrived; do not use it")


# -- every rank's machine --------------------------------------------------------------------------------------


def local(group: Group) -> dict[str, Any]:
    """What this rank sits on and how fast it copies and multiplies by itself, all ranks at the same time."""
    torch = group.torch
    gpu = group.device.type == "cuda"
    size, side = (256 * MIB, 4096) if gpu else (16 * MIB, 512)  # large enough that a launch does not show
    source = torch.randn(size // ELEMENT, device=group.device)
    target = torch.empty_like(source)
    a = torch.randn(side, side, device=group.device)

    def rate(amount: float, work: Callable[[], object]) -> float:
        def repeated(count: int) -> float:
            def many() -> None:
                for _ in range(count):
                    work()

            return group.seconds(many)

        repeated(2)
        loops = int(np.clip(np.ceil(LOCAL_SECONDS / repeated(1)), 1, 1000))
        return amount * loops / min(repeated(loops) for _ in range(5))

    copied = rate(2.0 * size, lambda: target.copy_(source))
    multiplied = rate(2.0 * side**3, lambda: torch.mm(a, a))
    name = torch.cuda.get_device_name(group.device) if gpu else platform.processor()
    return {
        "rank": group.rank,
        "host": platform.node(),
        "device": name or platform.machine(),
        "gpu": str(getattr(torch.cuda.get_device_properties(group.device), "uuid", "")) if gpu else "",
        "copy": copied,
        "product": multiplied,
    }


def shared_gpus(told: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each GPU that several ranks sit on: they take turns there, which is no link's doing."""
    ranks: dict[str, list[str]] = {}
    for row in told:
        if row["gpu"]:
            ranks.setdefault(row["gpu"], []).append(str(row["rank"]))
    return [
        f"ranks {' and '.join(mine)} share one GPU and take turns on it: the times are not those of a link between GPUs"
        for mine in ranks.values()
        if len(mine) > 1
    ]


def links(group: Group, told: Sequence[dict[str, Any]], size: int, rounds: int) -> list[Link]:
    """Bandwidth from each rank to the next, one pair after the other: the best of a few samples back and forth."""
    point = Point(group, "p2p", size)
    found = []
    for first in range(group.ranks):
        second = (first + 1) % group.ranks
        if group.ranks == 2 and first == 1:
            break  # the same pair again

        def exchange(count: int, first: int = first, second: int = second) -> float:
            def work() -> None:
                for _ in range(count):
                    point.ping_pong(first, second)

            took = group.everyone(group.seconds(work))
            return max(took[first], took[second])

        exchange(1)
        loops = int(np.clip(np.ceil(LINK_SECONDS / exchange(1)), 1, 1000))
        seconds = min(exchange(loops) for _ in range(rounds)) / loops
        ends = [f"rank {rank} on {told[rank]['host']}" for rank in (first, second)]
        within = told[first]["host"] == told[second]["host"]
        found.append(Link(f"the link from {ends[0]} to {ends[1]}", within, 2 * point.bytes / seconds))
    return found


# -- the whole measurement -------------------------------------------------------------------------------------


def sizes(backend: str, quick: bool) -> list[int]:
    size, brief, full = (8 * KIB, 256 * MIB, 1024 * MIB) if backend == "nccl" else (KIB, 4 * MIB, 64 * MIB)
    found, largest = [], brief if quick else full
    while size <= largest:
        found.append(size)
        size *= 16 if quick else 4
    return found


def measure(
    machine: Machine | None = None,
    quick: bool = False,
    clock: Clock = REAL,
    on_progress: Progress | None = None,
) -> list[Observation]:
    """Collectives between the ranks of this job. What a backend lacks, or a lost rank, is named under `gaps`."""
    group = join(clock)
    gaps: list[str] = []
    points: list[Point] = []
    facts: dict[str, Any] = {"ranks": group.ranks, "backend": group.backend, "data": "standard normal, fp32"}
    facts |= {"versions": {"torch": str(group.torch.__version__), "numpy": np.__version__}, "date": now()}
    notes: list[str] = list(group.notes)
    try:
        told = group.objects(local(group))
        facts["hosts"] = told
        notes += shared_gpus(told)
        names = [f"rank {row['rank']} on {row['host']}" for row in told]
        notes += stragglers([row["copy"] for row in told], names, "own copy bandwidth")
        notes += stragglers([row["product"] for row in told], names, "own matrix product")
        between = links(group, told, MIB, 5)
        facts["links"] = [
            {"link": link.name, "within_host": link.within, "bandwidth": link.bandwidth} for link in between
        ]
        notes += slow_links(between)
        facts["stragglers"] = [note for note in notes if "straggler" in note]
        points = prepare(group, quick, gaps)
        rounds = 5 if quick else 10
        for turn in range(rounds):
            for place, point in enumerate(points):
                if on_progress and group.rank == 0:
                    on_progress(turn * len(points) + place, rounds * len(points), f"{point.op} {point.bytes} B")
                point.sample()
        for point in points:
            point.check()
    except KeyboardInterrupt:
        gaps.append("stopped by Ctrl-C: what was sampled until then is kept")
    except RidgelineError:
        raise
    except RuntimeError as error:
        gaps.append(f"a rank was lost or did not answer: {first_line(error)}")
    else:
        leave(group)
    found = observations(group, [point for point in points if point.samples], {**facts, "gaps": gaps}, notes)
    if group.rank == 0 and not found:
        raise InputError(f"no collective could be measured: {'; '.join(gaps) or 'no points'}")
    return found if group.rank == 0 else []


def prepare(group: Group, quick: bool, gaps: list[str]) -> list[Point]:
    """Every collective at every size, tried and calibrated; one the backend does not have becomes a gap."""
    points: list[Point] = []
    for op in SENT:
        try:
            for size in sizes(group.backend, quick):
                point = Point(group, op, size)
                point.check()
                point.calibrate(0.004 if quick else 0.01)
                points.append(point)
        except (RuntimeError, NotImplementedError, ValueError) as error:
            if isinstance(error, RidgelineError):
                raise
            gaps.append(f"{op}: {group.backend} has none here ({first_line(error)})")
            points = [point for point in points if point.op != op]
    return points


def observations(
    group: Group, points: Sequence[Point], conditions: dict[str, Any], notes: Sequence[str]
) -> list[Observation]:
    """One per collective and size, and one per collective with the line fitted through its sizes."""
    found: list[Observation] = []
    for point in points:
        middle = float(np.median(point.samples))
        settings: dict[str, Any] = {
            "op": point.op,
            "bytes": point.bytes,
            "ranks": group.ranks,
            "backend": group.backend,
            "dtype": "fp32",
            "bus_bandwidth": point.sent / middle,
            "algorithm_bandwidth": point.bytes / middle,
            "loops": point.loops,
            "slowest_rank": point.slowest,
            "timing": "host clock around calls that begin at a barrier; the slowest rank counts",
        }
        told = list(notes)
        noticed = disturbed(point.samples)
        if noticed:
            told.append(f"disturbed: {noticed}")
        work = Work(moves={(LINK, "buffer", WRITE): point.sent}, name=point.op, dtype="fp32")
        name = f"{point.op} {point.bytes} B"
        found.append(
            Observation(name, f"collective.{point.op}", tuple(point.samples), work, settings, conditions, "ridgeline",
                        __version__, tuple(told))
        )  # fmt: skip
    for op in dict.fromkeys(point.op for point in points):
        mine = [point for point in points if point.op == op]
        medians = [float(np.median(point.samples)) for point in mine]
        line = fit([point.sent for point in mine], medians)
        if line is None:
            continue
        settings = {
            "op": op,
            "ranks": group.ranks,
            "backend": group.backend,
            "alpha": line.alpha,
            "beta": line.beta,
            "residual_relative": line.error,
            "bytes": [point.bytes for point in mine],
            "fit": "t = alpha + sent / beta over these sizes, least squares of relative errors",
        }
        found.append(
            Observation(f"{op} alpha beta", f"collective.{op}", tuple(medians), Work(), settings, conditions,
                        "ridgeline", __version__, tuple(notes))
        )  # fmt: skip
    return found
