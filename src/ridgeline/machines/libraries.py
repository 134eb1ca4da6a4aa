"""What the libraries that `--backend` names need of a machine, and whether they read a KV cache narrower than their arithmetic.

    FlashAttention-2    NVIDIA from Ampere, AMD from CDNA 2             https://github.com/Dao-AILab/flash-attention
    cuDNN attention     NVIDIA from Ampere                              https://docs.nvidia.com/cudnn/operations/Attention.md
    TensorRT-LLM        NVIDIA from Ampere                              https://nvidia.github.io/TensorRT-LLM/supported-hardware.html
    efficient           NVIDIA from Pascal, AMD from CDNA 2 (AOTriton)  aten/src/ATen/native/transformers/cuda/sdp_utils.cpp of PyTorch
    Triton              NVIDIA from Volta, AMD, Intel                   https://github.com/triton-lang/triton
    vLLM                NVIDIA from Volta, other vendors                https://docs.vllm.ai/en/stable/getting_started/installation
    SGLang              NVIDIA from Turing, other vendors               https://github.com/sgl-project/sglang/issues/6006

PyTorch runs on most machines; libraries that are not listed may run anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..core.errors import InputError, unknown
from ..core.machine import Machine
from .power import base
from .transfer import library

GENERATIONS: Mapping[str, tuple[str, ...]] = {
    "NVIDIA": ("pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell"),
    "AMD": ("cdna", "cdna2", "cdna3", "cdna4"),
    "Intel": ("xe-hpc",),
}  # of GPUs, oldest first


@dataclass(frozen=True)
class Library:
    title: str
    since: Mapping[str, str] = field(
        default_factory=dict
    )  # the first generation it runs on, by vendor; anywhere without any
    elsewhere: bool = False  # whether it runs on machines of the vendors that `since` does not name
    narrow_cache: bool = True  # whether it has kernels for a KV cache in fewer bits than the arithmetic

    @property
    def needs(self) -> str:
        """`NVIDIA GPUs from ampere or AMD GPUs from cdna2`."""
        return " or ".join(f"{vendor} GPUs from {first}" for vendor, first in self.since.items())

    def runs_on(self, machine: Machine) -> bool:
        """Whether it does, as far as the vendor and the generation of the machine are known."""
        if not self.since or not machine.vendor:
            return True
        generations, first = GENERATIONS.get(machine.vendor, ()), self.since.get(machine.vendor)
        if first is None or machine.kind != "gpu":
            return self.elsewhere
        mine = next((name for name in (machine.architecture, base(machine.architecture)) if name in generations), first)
        return generations.index(mine) >= generations.index(first)


DEFAULT_PATH = ""
LIBRARIES: Mapping[str, Library] = {
    DEFAULT_PATH: Library("PyTorch", narrow_cache=False),
    "flash2": Library("FlashAttention-2", {"NVIDIA": "ampere", "AMD": "cdna2"}, narrow_cache=False),
    "cudnn": Library("cuDNN attention", {"NVIDIA": "ampere"}, narrow_cache=False),
    "efficient": Library("memory-efficient attention", {"NVIDIA": "pascal", "AMD": "cdna2"}, narrow_cache=False),
    "triton": Library("Triton", {"NVIDIA": "volta", "AMD": "cdna", "Intel": "xe-hpc"}, narrow_cache=False),
    "trtllm": Library("TensorRT-LLM", {"NVIDIA": "ampere"}),
    "vllm": Library("vLLM", {"NVIDIA": "volta"}, elsewhere=True),
    "sglang": Library("SGLang", {"NVIDIA": "turing"}, elsewhere=True),
    "torch": Library("PyTorch"),
}


def known(backend: str) -> Library:
    """The library of a backend, whatever its version."""
    return LIBRARIES.get(library(backend), Library(backend))


def check(backend: str | None, machine: Machine, named: bool = True, families: Iterable[str] = ()) -> None:
    """Refuse a library that does not run on a machine, unless it was timed there, and one that nobody timed for it.

    `named` by the one who asks; of what a measured case ran on (a column of a table, a step) there need be no timings. `families` are
    those of the kernels that are asked for: cuDNN's convolutions run on every NVIDIA GPU and are PyTorch's.
    """
    if backend == "cudnn" and machine.vendor == "NVIDIA" and machine.kind == "gpu" and set(families) == {"conv"}:
        return
    backends = machine.backends - {""}
    asked = known(backend or DEFAULT_PATH)
    if named and backend and asked.runs_on(machine) and library(backend) not in map(library, backends):
        runnable = {name for name in backends if known(name).runs_on(machine)}
        hint = "" if runnable else "Leave the backend out for the default path."
        raise unknown(f"backend of {machine.name}", backend, runnable, hint)
    if asked.runs_on(machine):
        return
    timed = set(map(library, set().union(*machine.timed_backends.values()) - {""}))
    if library(backend or "") in timed:
        return
    listed = LIBRARIES.keys() & set(map(library, machine.backends))
    usable = sorted({*timed, *(name for name in listed if name and known(name).runs_on(machine))})
    instead = f"take {', '.join(usable)}, or leave the backend out" if usable else "leave the backend out"
    raise InputError(
        f"backend {backend} does not run on {machine.name}: {asked.title} needs {asked.needs}, and this is {_kind(machine)}; "
        f"{instead} for the default path"
    )


def _kind(machine: Machine) -> str:
    """`NVIDIA turing`, `a tpu of Google`, `an accelerator of Intel`."""
    if machine.kind == "gpu":
        return f"{machine.vendor} {machine.architecture}"
    return f"{'an' if machine.kind.startswith('a') else 'a'} {machine.kind} of {machine.vendor}"
