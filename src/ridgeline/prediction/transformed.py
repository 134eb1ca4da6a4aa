"""Convolutions whose kernels transform images and weights first (Winograd, FFT), and multiply less than direct ones.

However large its tiles, a transform is left with one product for each output and channel, of the kernel^2 that a direct convolution
has. In fp32 libraries take such kernels where they are faster; with 16 bits the matrix units are.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..core.bound import Bound
from ..core.families import Key
from ..core.families.convolution import CONVOLUTION
from ..core.work import Array, Kernel, Work, largest
from .kernel_times import KernelTime

TRANSFORMED = (
    "the timed kernels transform the images (Winograd, FFT) and beat the roofline, which counts direct products"
)


def has_images(work: Work) -> bool:
    return any(map(_can_transform, work.kernels))


def fewer_products(bound: Bound, seconds: Array, kernels: Iterable[KernelTime]) -> Array:
    """Direct products for each that kernels which take these seconds need at least: 1 where they do not beat the roofline."""
    images = [each for each in kernels if _can_transform(each.kernel)]
    if not images:
        return 1.0
    sides = largest(np.where(np.asarray(each.applies) > 0, each.kernel.sizes["kernel"], 1.0) for each in images)
    return np.where(np.asarray(seconds) < bound.floor, np.square(sides), 1.0)


def _can_transform(kernel: Kernel) -> bool:
    """Whether a kernel is a convolution on the vector units."""
    return kernel.family == CONVOLUTION.name and Key(kernel.family, kernel.dtype).dtypes[0] == "fp32"
