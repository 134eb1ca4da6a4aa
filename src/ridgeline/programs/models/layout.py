"""Layout: over how many devices a model is split, and how."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism; the product of tensor, pipeline, context and data is the number of devices.

    Experts are split over `ep` of the devices of tensor and data parallelism, as serving engines do.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    cp: int = 1
    sequence: bool = False  # sequence parallelism: norms and residuals split over the tensor-parallel devices
    shard: int = (
        0  # ZeRO stage of the states that data-parallel devices split: 1 optimizer, 2 gradients too, 3 weights too
    )

    @property
    def devices(self) -> int:
        return self.tp * self.pp * self.cp * self.dp
