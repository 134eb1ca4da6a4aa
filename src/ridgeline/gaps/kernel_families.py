"""Which kernels may have run which steps: by the family that a kernel's name shows, and by the recorded shapes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ..core.dtypes import dtype as dtype_row
from ..core.observation import Observation
from ..core.work import READ, Work

# Kernel families by words in the kernel name, in lower case; the first row with one of its words counts.
KERNELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("helper", ("splitk", "split_k", "memset", "memcpy")),  # belongs to the kernel before it
    ("attention", ("flash", "fmha", "sdpa", "attention", "paged")),
    ("conv", ("conv", "fprop", "dgrad", "wgrad", "implicit_gemm", "winograd")),
    ("collective", ("allreduce", "all_reduce", "allgather", "all_gather", "reducescatter", "reduce_scatter", "sendrecv", "nccl")),
    ("softmax", ("softmax",)),
    ("norm", ("layernorm", "layer_norm", "rmsnorm", "rms_norm", "batchnorm", "batch_norm", "groupnorm", "group_norm", "bn_fw")),
    ("gather", ("embedding", "gather", "index_select", "scatter")),
    ("transpose", ("transpose", "permute")),
    ("gemv", ("gemv",)),
    ("gemm", ("gemm", "nvjet", "cutlass", "xmma", "matmul", "wgmma")),
    ("reduce", ("reduce_kernel", "asum", "nrm2", "dot_kernel")),
    ("stream", ("elementwise", "vectorized", "unrolled", "pointwise", "copy", "fill", "triton_poi")),
)  # fmt: skip
# Kernels of libraries by parts of their names: their time is what the tool expects, so nothing faster is promised of them.
LIBRARY = re.compile(
    r"at::|at_cuda|nvjet|cutlass|xmma|cublas|cudnn|gemvx|gemvNSP|gemv2|splitKreduce|flash_fwd|flash_bwd|fmha_|pytorch_flash"
    r"|cunn_|vectorized_layer_norm|ncclDevKernel|cub::|thrust::|Kernel2|sm\d\d_"
)
# Kernels of libraries that convert between the layouts of images, and strided copies of ATen without a cast.
CONVERSION = re.compile(
    r"nchwtonhwc|nhwctonchw|nchwtofold|transformtensor|converttensor|nchwtonchw|tensor_?transform", re.I
)
STRIDED_COPY = re.compile(r"(?<![a-z_])elementwise_kernel<.*nocast<.*direct_copy_kernel")
_ELEMENTWISE = re.compile(r"elementwise_kernel<")
_FUNCTORS = re.compile(r"CUDAFunctor\w*?_(\w+)<|(\w+)Functor<|(\w+?)_(?:tensor_scalar_)?kernel_(?:cuda|impl)\b")
_WRAPPERS = ("unary", "aunary", "bunary", "binary", "gpu")  # around the function itself
_FUNCTION = re.compile(r"(?<!::)[<(]")  # where the name of a function ends; `<unnamed>` is a namespace
_REDUCE = re.compile(r"\breduce")  # as a word of its own; inside another word it says nothing
# Step families that a kernel family may implement: libraries use elementwise kernels for strided copies, and so on.
SERVED_BY: dict[str, frozenset[str]] = {
    "gemm": frozenset({"gemm", "gemv", "moe"}),
    "gemv": frozenset({"gemv", "gemm"}),
    "stream": frozenset({"stream", "transpose", "gather"}),
    "transpose": frozenset({"transpose", "stream"}),
    "gather": frozenset({"gather", "stream"}),
    "reduce": frozenset({"reduce", "rows", "softmax", "norm"}),
    "softmax": frozenset({"softmax", "rows", "attention"}),
    "norm": frozenset({"norm", "rows"}),
    "attention": frozenset({"attention"}),
    "conv": frozenset({"conv"}),
    "collective": frozenset({"collective"}),
}
SECTOR = 32.0  # bytes
MIN_READ_OF_COPY = 0.5  # bytes that L2 delivers per byte stored, below which a copy repeats its input
MAX_SIZE_RATIO = 2.0  # within which tensors count as the same (padding, an added bias)


class Kernel(NamedTuple):
    """What an observation shows of the step that it ran."""

    family: str
    sizes: frozenset[float] | None  # in the recorded shapes; None where there are none
    largest: float | None  # elements of the largest tensor


class Needed(NamedTuple):
    """What a kernel of the step would show."""

    family: str
    sizes: frozenset[float] | None  # of the step, without those of 1; None where they are not known
    largest: float  # elements of the largest input, 0 where it is not known


def kernel_family(item: Observation) -> str:
    """The family from the kernel name, else from the op; empty where neither matches."""
    families = map(_family, (item.kernel, str(item.settings.get("op", "")), item.name))
    return next(filter(None, families), "")


@lru_cache(maxsize=4096)
def _family(text: str) -> str:
    name = text.lower()
    for family, words in KERNELS:
        for word in words:
            if word in name:
                return family
        if family == "reduce" and _REDUCE.search(name):
            return family
    return ""


def is_product(kernel: str) -> bool:
    """Whether the name of a kernel shows a matrix product, convolution or attention."""
    return _family(kernel) in ("gemm", "conv", "attention")


def is_library(kernel: str) -> bool:
    """Whether a kernel is one of a library, by its name."""
    return LIBRARY.search(kernel) is not None


def is_conversion(kernel: str) -> bool:
    """Whether the name of a kernel shows that it only copies a tensor into another layout."""
    return CONVERSION.search(kernel) is not None or STRIDED_COPY.search(kernel) is not None


@lru_cache(maxsize=4096)
def kernel_word(kernel: str) -> str:
    """What a kernel does in a word, where its name says it: `mul` of ATen's elementwise kernels; else the function's name."""
    words = [next(filter(None, match)) for match in _FUNCTORS.findall(kernel)] if _ELEMENTWISE.search(kernel) else []
    named = [word.lower() for word in words if word.lower() not in _WRAPPERS]
    return named[-1] if named else _FUNCTION.split(kernel.removeprefix("void "))[0].rpartition("::")[2].strip()


def only_converts(item: Observation) -> bool:
    """Whether a kernel only copies a tensor into another layout, by its name; not where it repeats a smaller one."""
    return is_conversion(item.kernel) and not _repeats(item.counters)


def _repeats(counters: Mapping[str, float]) -> bool:
    """Whether a copy stores far more than L2 delivers for it, as `repeat` and `expand` do."""
    delivered, stored = counters.get("l2_to_sm"), bytes_through_l1(counters, "store")
    return delivered is not None and delivered < MIN_READ_OF_COPY * stored


def bytes_through_l1(counters: Mapping[str, float], way: str) -> float:
    """Bytes of the loads or stores of a kernel; 0 where they were not counted."""
    return SECTOR * counters.get(f"{way}_requests", 0.0) * counters.get(f"sectors_per_{way}", 0.0)


def kernel_of(item: Observation) -> Kernel:
    family, shapes = kernel_family(item), item.settings.get("shapes")
    if not isinstance(shapes, list) or not shapes:
        return Kernel(family, None, None)
    listed = [shape for shape in shapes if isinstance(shape, list) and shape]
    sizes = frozenset([float(size) for shape in listed for size in shape if isinstance(size, int | float)])
    tensors = [prod(map(float, shape)) for shape in listed if set(map(type, shape)) == {int}]
    return Kernel(family, sizes, max(tensors, default=None))


def step_family(work: Work) -> str:
    """The family of a step in the same terms; row operations are split by op."""
    if work.family == "rows":
        return "softmax" if "softmax" in work.name else "norm" if "norm" in work.name else "rows"
    return work.family


def needed_by(work: Work) -> Needed:
    sizes = [value for value in work.shape.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    tensors = work.tensor_sizes() if work.dtype else {}
    inputs = {tensor for _, tensor, way in work.moves if way == READ and tensor in tensors}
    largest = max((float(np.max(tensors[tensor])) for tensor in inputs), default=0.0)
    elements = largest / dtype_row(work.dtype).bytes if largest else 0.0
    return Needed(step_family(work), frozenset(map(float, sizes)) - {1.0} if sizes else None, elements)


def may_be(step: Needed, kernel: Kernel) -> bool:
    """Whether the kernel name and the recorded shapes are consistent with the step."""
    ratio = kernel.largest / step.largest if step.largest and kernel.largest is not None else 1.0
    if not 1 / MAX_SIZE_RATIO <= ratio <= MAX_SIZE_RATIO:
        return False
    return not kernel.family or not step.family or step.family in SERVED_BY.get(kernel.family, {kernel.family})


class Shapes:
    """Steps by their sizes. Steps that are alike are looked at once, and only where a kernel has their rarest size."""

    def __init__(self, steps: Mapping[int, Needed]) -> None:
        self.alike: dict[Needed, list[int]] = defaultdict(list)
        for place, step in steps.items():
            if step.sizes is not None:
                self.alike[step].append(place)
        common = Counter(size for step in self.alike for size in step.sizes or ())
        self.by_size: dict[float | None, list[Needed]] = defaultdict(list)
        for step in self.alike:
            self.by_size[min(step.sizes or (), key=lambda size: (common[size], size), default=None)].append(step)
        self.known: dict[Kernel, int | None] = {}

    def only(self, kernel: Kernel) -> int | None:
        """The one step whose sizes are all among those of the kernel; None where there is none, or more than one."""
        if kernel not in self.known:
            self.known[kernel] = self._only(kernel)
        return self.known[kernel]

    def _only(self, kernel: Kernel) -> int | None:
        fitting: list[int] = []
        sizes = kernel.sizes or frozenset()
        for size in (None, *sizes):
            for step in self.by_size.get(size, ()):
                if (step.sizes or frozenset()) <= sizes and may_be(step, kernel):
                    fitting += self.alike[step]
                    if len(fitting) > 1:
                        return None
        return fitting[0] if fitting else None


class Sizes:
    """The largest inputs of the steps of a family, in order."""

    def __init__(self, steps: Sequence[Needed]) -> None:
        self.unknown = any(not step.largest for step in steps)
        self.elements = sorted(step.largest for step in steps)

    def fit(self, kernel: Kernel) -> bool:
        """Whether the recorded shapes allow at least one of the steps."""
        largest = kernel.largest
        if self.unknown or largest is None:
            return True
        # the smallest step that is not too small for the kernel; all larger ones fit it less well
        place = bisect_left(self.elements, largest / MAX_SIZE_RATIO)
        return place < len(self.elements) and largest / self.elements[place] >= 1 / MAX_SIZE_RATIO
