"""The ranks of a torchrun job: joining them, one collective at one size, what each rank and link does by itself.

sent: bytes per rank and direction of the ring algorithm
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, RidgelineError, first_line
from ...core.network import sent
from ..protocol import REAL, Clock, repeat

RANK_TIMEOUT = timedelta(seconds=120)  # how long a rank waits for the others before it gives up
HOW = "torchrun --nproc-per-node 2 -m ridgeline measure collective"
ELEMENT_BYTES = 4  # fp32
CHECKED_ELEMENTS = 32  # of every part that are compared with what they should be
MAX_GROWTH = 30.0  # powers of ten a sum may grow by before the buffer is filled again: all_reduce works in place
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p")


def _ring_share(op: str, ranks: int) -> float:
    return float(sent(op, float(ranks), reduces=False))


# bytes a rank sends, as a share of the buffer, by the ring algorithm
SENT: dict[str, Callable[[int], float]] = {op: partial(_ring_share, op) for op in OPERATIONS}
MIB = 1 << 20
LOCAL_SECONDS = 0.01  # of one sample of what a rank does by itself
LINK_SECONDS = 0.03  # of one sample of a link, so that what buffers on the way take does not pass for its bandwidth


@dataclass
class Group:
    """The ranks of this job and how they communicate."""

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

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def gather(self, value: float) -> list[float]:
        """The value of every rank, at every rank."""
        local = self.torch.tensor([value], dtype=self.torch.float64, device=self.device)
        gathered = [self.torch.empty_like(local) for _ in range(self.ranks)]
        self.dist.all_gather(gathered, local)
        return [float(each.item()) for each in gathered]

    def gather_objects(self, value: Any) -> list[Any]:
        gathered: list[Any] = [None] * self.ranks
        self.dist.all_gather_object(gathered, value)
        return gathered

    def seconds(self, work: Callable[[], object]) -> float:
        """Seconds of the work at this rank, all ranks having begun together."""
        self.synchronize()
        self.dist.barrier()
        start = self.clock.now()
        work()
        self.synchronize()
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
    if not dist.is_available():
        raise InputError("this torch was built without torch.distributed, so there are no collectives to measure")
    if not dist.is_initialized() and not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= set(os.environ):
        raise InputError(f"collectives are measured between ranks that torchrun starts: {HOW}")
    host_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    on_gpus = gpus >= host_ranks
    notes = (f"{gpus} GPUs for {host_ranks} ranks of this host: measured between CPUs instead",)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if on_gpus else torch.device("cpu")
    started = not dist.is_initialized()
    if started:
        _initialize(torch, device, "nccl" if on_gpus else "gloo")
    backend = str(dist.get_backend())
    remarks = notes if gpus and not on_gpus else ()
    group = Group(torch, dist.get_rank(), dist.get_world_size(), device, backend, clock, started, remarks)
    if group.ranks < 2:
        leave(group)
        raise InputError(f"a collective needs at least 2 ranks, this job has {group.ranks}: {HOW}")
    return group


def _initialize(torch: Any, device: Any, backend: str) -> None:
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    try:
        # one operation at a time is timed, so that NCCL's advice on sending side by side does not apply
        os.environ.setdefault("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false")
        # naming the device connects at once and in one communicator; without it NCCL guesses and warns
        torch.distributed.init_process_group(backend, timeout=RANK_TIMEOUT, device_id=device if on_gpu else None)
    except Exception as error:
        raise InputError(f"the ranks could not be joined with {backend}: {first_line(error)}") from error


def leave(group: Group) -> None:
    if group.started and group.dist.is_initialized():
        group.dist.destroy_process_group()


@dataclass
class Point:
    """One collective over a buffer of `size` bytes: its data, its answer and its samples (the slowest rank's)."""

    group: Group
    op: str
    size: int
    samples: list[float] = field(default_factory=list)
    loops: int = 1
    slowest: list[int] = field(default_factory=list)  # the rank that took longest, sample by sample

    def __post_init__(self) -> None:
        torch, group = self.group.torch, self.group
        self.part = max(1, self.size // ELEMENT_BYTES // group.ranks)
        self.count = self.part * group.ranks
        generator = torch.Generator().manual_seed(100 + group.rank)
        self.base = torch.randn(self.count, generator=generator).to(group.device)
        self.buffer = self.base.clone()
        self.out = torch.empty(self.part if self.op == "reduce_scatter" else self.count, device=group.device)

    @property
    def bytes(self) -> int:
        return self.count * ELEMENT_BYTES

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
            local = self.base[group.rank * self.part : (group.rank + 1) * self.part]
            newest(dist, "all_gather_single", "all_gather_into_tensor")(self.out, local)
        elif self.op == "reduce_scatter":
            newest(dist, "reduce_scatter_single", "reduce_scatter_tensor")(self.out, self.base)
        elif self.op == "all_to_all":
            dist.all_to_all_single(self.out, self.base)
        else:
            self.ping_pong(0, 1)

    def ping_pong(self, first: int, second: int) -> None:
        """From one rank to another and back; the others take no part."""
        dist, rank = self.group.dist, self.group.rank
        if rank == first:
            dist.send(self.base, second)
            dist.recv(self.out, second)
        elif rank == second:
            dist.recv(self.out, first)
            dist.send(self.out, first)

    def run(self, loops: int) -> float:
        """Seconds of so many calls at this rank; a buffer summed in place is filled again before it overflows."""
        max_chunk = max(1, int(MAX_GROWTH / np.log10(self.group.ranks))) if self.in_place else loops
        spent, left = 0.0, loops
        while left:
            chunk = min(left, max_chunk)
            if self.in_place:
                self.buffer.copy_(self.base)
            spent += self.group.seconds(repeat(self.once, chunk))
            left -= chunk
        return spent / (2 if self.op == "p2p" else 1)

    def calibrate(self, min_seconds: float) -> None:
        """As many loops as the slowest rank needs for `min_seconds`; all ranks agree on it."""
        self.run(2)
        took = max(self.group.gather(self.run(2))) / 2
        self.loops = int(min(10_000, max(1, np.ceil(min_seconds / max(took, 1e-7)))))

    def sample(self) -> None:
        took = self.group.gather(self.run(self.loops) / self.loops)
        taking_part = took[:2] if self.op == "p2p" else took
        self.samples.append(max(taking_part))
        self.slowest.append(int(np.argmax(taking_part)))

    def check(self) -> None:
        """Compare the head of every part with what the ranks' data say it must be."""
        group = self.group
        head = min(CHECKED_ELEMENTS, self.part)
        heads = np.stack(group.gather_objects(self._heads(self.base, head)))  # [rank, part, element]
        if self.in_place:
            self.buffer.copy_(self.base)
        self.once()
        group.synchronize()
        actual = self._heads(self.buffer if self.in_place else self.out, head)
        expected = self._expected(heads)
        right = expected is None or bool(np.allclose(actual, expected, rtol=1e-5, atol=1e-5))
        if min(group.gather(float(right))) < 1:
            raise RidgelineError(f"probe {self.op} of {self.bytes} B: wrong values arrived; do not use it")

    def _heads(self, values: Any, head: int) -> NDArray[np.float64]:
        heads: NDArray[np.float64] = values.view(-1, self.part)[:, :head].double().cpu().numpy()
        return heads

    def _expected(self, heads: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """What this rank must receive; None where it takes no part."""
        rank, ranks = self.group.rank, self.group.ranks
        if self.op == "all_reduce":
            return np.asarray(heads.sum(axis=0))
        if self.op == "all_gather":
            return np.stack([heads[other, other] for other in range(ranks)])
        if self.op == "reduce_scatter":
            return np.asarray(heads[:, rank].sum(axis=0)[None])
        if self.op == "all_to_all":
            return heads[:, rank]
        return heads[0] if rank < 2 else None


def newest(module: Any, *names: str) -> Any:
    """The first of these functions there is: torch renames, and warns of the old name for as long as it has both."""
    return next(getattr(module, name) for name in names if hasattr(module, name))


def loops_for(wanted: float, seconds: float) -> int:
    return int(np.clip(np.ceil(wanted / seconds), 1, 1000))


def local(group: Group) -> dict[str, Any]:
    """The host and device of this rank, and how fast it copies and multiplies by itself, all ranks at the same time."""
    torch = group.torch
    gpu = group.device.type == "cuda"
    size, side = (256 * MIB, 4096) if gpu else (16 * MIB, 512)  # large enough that a launch does not show
    source = torch.randn(size // ELEMENT_BYTES, device=group.device)
    target = torch.empty_like(source)
    a = torch.randn(side, side, device=group.device)

    def rate(amount: float, work: Callable[[], object]) -> float:
        group.seconds(repeat(work, 2))
        loops = loops_for(LOCAL_SECONDS, group.seconds(work))
        return amount * loops / min(group.seconds(repeat(work, loops)) for _ in range(5))

    name = torch.cuda.get_device_name(group.device) if gpu else platform.processor()
    return {
        "rank": group.rank,
        "host": platform.node(),
        "device": name or platform.machine(),
        "gpu": str(getattr(torch.cuda.get_device_properties(group.device), "uuid", "")) if gpu else "",
        "copy": rate(2.0 * size, lambda: target.copy_(source)),
        "product": rate(2.0 * side**3, lambda: torch.mm(a, a)),
    }


@dataclass(frozen=True)
class Link:
    """The way from one rank to the next; `within` one host or between two."""

    name: str
    within: bool
    bandwidth: float


def ring_links(group: Group, hosts: Sequence[dict[str, Any]], size: int, rounds: int) -> list[Link]:
    """Bandwidth from each rank to the next, one pair after the other: the best of a few samples back and forth."""
    point = Point(group, "p2p", size)
    ring = []
    for first in range(group.ranks):
        second = (first + 1) % group.ranks
        if group.ranks == 2 and first == 1:
            break  # the same pair again

        def exchange(count: int, first: int = first, second: int = second) -> float:
            took = group.gather(group.seconds(repeat(partial(point.ping_pong, first, second), count)))
            return max(took[first], took[second])

        exchange(1)
        loops = loops_for(LINK_SECONDS, exchange(1))
        seconds = min(exchange(loops) for _ in range(rounds)) / loops
        ends = [f"rank {rank} on {hosts[rank]['host']}" for rank in (first, second)]
        within = hosts[first]["host"] == hosts[second]["host"]
        ring.append(Link(f"the link from {ends[0]} to {ends[1]}", within, 2 * point.bytes / seconds))
    return ring
