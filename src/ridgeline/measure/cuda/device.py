"""One CUDA device as the probes see it: CuPy compiles and runs our kernels, torch brings the library's GEMMs.

The only file that loads cupy and torch for measuring on a GPU. Either may be missing; what it would have measured is
then a named gap. Times are device events around the work; nothing is subtracted.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError, RidgelineError, first_line
from ..protocol import in_turn

KERNELS = Path(__file__).parents[1] / "kernels"
MIB = 1 << 20
CUPY_PROBES = "memory, FMA, special-function, launch and copy probes"
TORCH_PROBES = "library GEMMs and the framework's dispatch"

# What is instantiated of each template; the probes' variants are made of these.
UNROLLS = (1, 2, 4, 8)
READ_PATHS = (0, 1, 2, 3)  # cached, streamed, level-2 only, streamed with 256 B fetches
WRITE_PATHS = (0, 1)  # plain, streamed
MIXED_PATHS = (0, 1, 3)
L1_SHAPES = ((1024, 4), (512, 8), (512, 4))
SHARED_SHAPES = ((1024, 2), (512, 4), (256, 8))
CHAINS = (4, 8, 16)
TYPES = {"fp64": "double", "fp32": "float", "fp16": "u32"}
SPECIALS = {"ex2": 0, "rsqrt": 1}
SOURCES = {
    "memory.cu": (
        *(f"read<{unroll}, {path}>" for unroll in UNROLLS for path in READ_PATHS),
        *(f"write<{unroll}, {path}>" for unroll in UNROLLS for path in WRITE_PATHS),
        *(f"{mix}<{unroll}, {path}>" for mix in ("copy", "triad") for unroll in UNROLLS for path in MIXED_PATHS),
        *(f"read_l1<{threads}, {unroll}>" for threads, unroll in L1_SHAPES),
        *(f"read_shared<{threads}, {unroll}>" for threads, unroll in SHARED_SHAPES),
        "chase<0>",
        "chase<2>",
        *("fill_normal", "checksums", "link", "chase_shared"),
    ),
    "compute.cu": (
        *(f"multiply_adds<{kind}, {chains}>" for kind in TYPES.values() for chains in CHAINS),
        *(f"specials<{which}, {chains}>" for which in SPECIALS.values() for chains in CHAINS),
        *("nothing", "spin"),
    ),
}


def u32(value: float) -> np.uint32:
    return np.uint32(int(value))


def u64(value: float) -> np.uint64:
    return np.uint64(int(value))


class Device(Protocol):
    """What a probe needs of a device; tests bring their own."""

    name: str
    sms: int
    l2: int

    def free(self) -> int: ...
    def allocate(self, size: int) -> int: ...
    def pinned(self, size: int) -> NDArray[np.uint8]: ...
    def upload(self, at: int, values: NDArray[Any]) -> None: ...
    def download(self, at: int, dtype: Any, count: int) -> NDArray[Any]: ...
    def copy(self, target: int, source: int, size: int) -> None: ...
    def launch(self, kernel: str, grid: int, block: int, *arguments: Any, shared: int = 0) -> None: ...
    def record(self, works: Sequence[Callable[[], None]]) -> Callable[[], None]: ...
    def elapsed(self, work: Callable[[], None], before: Callable[[], None] | None = None, spin: int = 0) -> float: ...
    def synchronize(self) -> None: ...


class CupyDevice:
    """The device through CuPy: a stream, buffers, kernels compiled by NVRTC for exactly this GPU."""

    def __init__(self, cupy: Any) -> None:
        self.cupy, self.runtime = cupy, cupy.cuda.runtime
        device = cupy.cuda.Device(0)
        device.use()
        properties = self.runtime.getDeviceProperties(0)
        self.name = properties["name"].decode()
        self.sms, self.l2 = int(properties["multiProcessorCount"]), int(properties["l2CacheSize"])
        self.capability = (int(properties["major"]), int(properties["minor"]))
        self.bus = str(device.pci_bus_id)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.start, self.end = cupy.cuda.Event(), cupy.cuda.Event()
        self._held: list[Any] = []
        self._functions: dict[str, Any] = {}
        for source, names in SOURCES.items():
            # the path goes without a name: texts with templates are compiled by NVRTC, never by nvcc
            module = cupy.RawModule(
                code=(KERNELS / source).read_text(encoding="utf-8"), options=("-std=c++17",), name_expressions=names
            )
            self._functions.update({name: module.get_function(name) for name in names})

    def free(self) -> int:
        return int(self.runtime.memGetInfo()[0])

    def allocate(self, size: int) -> int:
        try:
            memory = self.cupy.cuda.Memory(size)
        except Exception as error:
            raise RidgelineError(
                f"{self.name}: {size / MIB:.0f} MiB of GPU memory could not be had ({first_line(error)}); "
                "end other programs on the GPU"
            ) from error
        self._held.append(memory)
        return int(memory.ptr)

    def pinned(self, size: int) -> NDArray[np.uint8]:
        memory = self.cupy.cuda.alloc_pinned_memory(size)
        self._held.append(memory)
        return np.frombuffer(memory, np.uint8, size)

    def upload(self, at: int, values: NDArray[Any]) -> None:
        values = np.ascontiguousarray(values)
        self.runtime.memcpy(at, values.ctypes.data, values.nbytes, self.runtime.memcpyHostToDevice)
        self.runtime.deviceSynchronize()  # a copy from pageable memory may return before it has arrived

    def download(self, at: int, dtype: Any, count: int) -> NDArray[Any]:
        values = np.empty(count, dtype)
        self.synchronize()
        self.runtime.memcpy(values.ctypes.data, at, values.nbytes, self.runtime.memcpyDeviceToHost)
        return values

    def copy(self, target: int, source: int, size: int) -> None:
        """Queued; whichever side of it is pinned host memory."""
        self.runtime.memcpyAsync(target, source, size, self.runtime.memcpyDefault, self.stream.ptr)

    def launch(self, kernel: str, grid: int, block: int, *arguments: Any, shared: int = 0) -> None:
        with self.stream:
            self._functions[kernel]((grid,), (block,), arguments, shared_mem=shared)

    def record(self, works: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """A graph of the works; calling it queues them all at once."""
        with self.stream:
            self.stream.begin_capture()
            in_turn(works)()
            graph = self.stream.end_capture()
        self._held.append(graph)
        return lambda: graph.launch(self.stream)

    def elapsed(self, work: Callable[[], None], before: Callable[[], None] | None = None, spin: int = 0) -> float:
        """Device seconds of the work; `before` is queued ahead of it, `spin` holds the stream while the host queues."""
        if before is not None:
            before()
        if spin:
            self.launch("spin", 1, 1, u64(spin))
        self.start.record(self.stream)
        work()
        self.end.record(self.stream)
        self.end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(self.start, self.end)) / 1e3

    def synchronize(self) -> None:
        self.stream.synchronize()
        self.runtime.deviceSynchronize()


class Library:
    """Matrix products by torch on one of its devices, timed by events on a GPU and by the clock elsewhere."""

    def __init__(self, torch: Any, device: str = "cuda") -> None:
        self.torch, self.device = torch, device
        self.on_gpu = device.startswith("cuda")

    def elapsed(self, work: Callable[[], None]) -> float:
        if not self.on_gpu:
            start = time.perf_counter()
            work()
            return max(time.perf_counter() - start, 1e-9)
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def record(self, works: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """A graph of the works on a GPU; elsewhere they run one after the other."""
        if not self.on_gpu:
            return in_turn(works)
        side = self.torch.cuda.Stream()
        with self.torch.cuda.stream(side):
            works[0]()  # a library sets itself up in its first call, which must not be captured
        side.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            in_turn(works)()
        return lambda: graph.replay()

    def rest(self, seconds: float) -> None:
        """Keep the device awake but cool: one thread that waits, at some two cycles a nanosecond."""
        if self.on_gpu:
            self.torch.cuda._sleep(int(2e9 * seconds))

    def synchronize(self) -> None:
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def versions(self) -> dict[str, str]:
        installed = {"torch": str(self.torch.__version__), "cuda": str(self.torch.version.cuda)}
        with suppress(Exception):
            installed["cudnn"] = str(self.torch.backends.cudnn.version())
        return installed


def package(name: str) -> Any | None:
    """A package, or None where it is not installed or cannot load (a missing shared library says ImportError too)."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@cache
def triton_module(name: str) -> Any | None:
    """The module of kernels/NAME.triton, or None where triton is not installed."""
    if package("triton") is None:
        return None
    loader = SourceFileLoader(f"ridgeline_{name}_triton", str(KERNELS / f"{name}.triton"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


def open_device() -> tuple[CupyDevice | None, Library | None, list[str]]:
    """The device through CuPy and through torch, and what is missing; InputError when there is nothing to measure with."""
    cupy, torch = package("cupy"), package("torch")
    if cupy is None and torch is None:
        raise InputError(
            "measuring a GPU needs cupy (our kernels) or torch (library GEMMs), and neither is installed; "
            "install cupy-cuda13x or cupy-cuda12x, and torch with CUDA"
        )
    gaps: list[str] = []
    device, why = _cupy_device(cupy, gaps)
    library: Library | None = None
    if torch is None:
        gaps.append(f"{TORCH_PROBES}: torch is not installed")
    elif not torch.cuda.is_available():
        gaps.append(f"{TORCH_PROBES}: this torch sees no CUDA GPU")
    else:
        torch.cuda.set_device(0)
        library = Library(torch)
    if device is None and library is None:
        reason = why or "; ".join(gaps)
        raise InputError(f"no CUDA GPU can be measured here: {reason}. `ridgeline measure cpu` measures the processor.")
    return device, library, gaps


def _cupy_device(cupy: Any | None, gaps: list[str]) -> tuple[CupyDevice | None, str]:
    """The device through CuPy, or why the driver shows none; a CuPy that is missing or fails is a gap."""
    if cupy is None:
        gaps.append(f"{CUPY_PROBES}: cupy is not installed")
        return None, ""
    try:
        if cupy.cuda.runtime.getDeviceCount() < 1:
            return None, "the driver shows no GPU number 0"
    except Exception as error:  # CUDARuntimeError, or a driver library that cannot be loaded
        return None, first_line(error)
    try:
        return CupyDevice(cupy), ""
    except RidgelineError:
        raise
    except Exception as error:
        gaps.append(f"{CUPY_PROBES}: {first_line(error)}")
        return None, ""
