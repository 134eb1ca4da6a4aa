"""The ranks of a torchrun job: joining them, gathering values from all, timing work that begins together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ...core.errors import InputError, first_line
from ..protocol import REAL, Clock

RANK_TIMEOUT = timedelta(seconds=120)  # how long a rank waits for the others before it gives up
HOW = "torchrun --nproc-per-node 2 -m ridgeline measure collective"


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
