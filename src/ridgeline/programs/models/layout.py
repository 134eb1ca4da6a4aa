"""Layout: over how many devices a model is split, and how; whether a model can be split so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from numbers import Integral

from ...core.errors import InputError
from .architecture import Architecture, Attention, Experts, Latent, Layer, Mlp

TENSOR, PIPELINE, DATA, EXPERT, CONTEXT = DEGREES = ("tp", "pp", "dp", "ep", "cp")
EXPERT_DATA = (
    "ep replicas"  # devices that hold the same experts: a collective over them spans more nodes than one over dp
)
NO_SHARDING, SHARD_STATES, SHARD_GRADIENTS, SHARD_WEIGHTS = range(4)
MAX_SUGGESTED = 8  # degrees that a message names


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism; the product of tensor, pipeline, context and data is the number of devices.

    Experts are split over `ep` of the devices of tensor and data parallelism, as serving engines do: within a
    tensor-parallel group up to `tp`, over ep / tp of the data-parallel replicas beyond.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    cp: int = 1
    sequence: bool = False  # sequence parallelism: norms and residuals split over the tensor-parallel devices
    shard: int = 0  # ZeRO stage of what data-parallel devices split: 1 optimizer, 2 gradients too, 3 weights too
    ring: bool = True  # context parallelism passes keys and values around; else they are gathered before attention

    def __post_init__(self) -> None:
        for name in DEGREES:
            degree = getattr(self, name)
            if not isinstance(degree, Integral) or isinstance(degree, bool) or degree < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {degree!r}")
        if self.shard not in range(4):
            raise InputError(f"shard must be a ZeRO stage from 0 to 3, got {self.shard!r}")

    @property
    def devices(self) -> int:
        return self.tp * self.pp * self.cp * self.dp

    @property
    def expert_tp(self) -> int:
        """Devices that split every single expert."""
        return max(self.tp // self.ep, 1)

    @property
    def expert_replicas(self) -> int:
        """Data-parallel replicas whose tokens meet at the experts; above 1 tokens are exchanged."""
        return max(self.ep // self.tp, 1)

    def holders(self, experts: bool) -> int:
        """Devices that hold the same weights: of experts that replicas split among themselves there are fewer."""
        return self.dp * self.cp // (self.expert_replicas if experts else 1)


def _divisors(number: int) -> str:
    fitting = [degree for degree in range(1, number + 1) if number % degree == 0]
    listed = ", ".join(map(str, fitting[:MAX_SUGGESTED]))
    return listed if len(fitting) <= MAX_SUGGESTED else f"{listed}, ..."


def _splits(number: int, degree: int, what: str, name: str) -> None:
    if number % degree:
        raise InputError(f"{number} {what} cannot be split over {name}={degree}; {name} can be {_divisors(number)}")


def check_layout(architecture: Architecture, layout: Layout) -> None:
    """One message where a model cannot be split so: what does not divide, and which degrees would."""
    if layout.pp > architecture.depth:
        raise InputError(
            f"{architecture.name} has {architecture.depth} layers, fewer than pp={layout.pp} stages; "
            f"pp can be at most {architecture.depth}"
        )
    if layout.ep > 1 and not any(isinstance(layer.mlp, Experts) for layer in architecture.layers):
        raise InputError(f"{architecture.name} has no experts to split over ep={layout.ep}; ep must be 1")
    if max(layout.ep, layout.tp) % min(layout.ep, layout.tp) or (layout.tp * layout.dp) % layout.ep:
        raise InputError(
            f"ep={layout.ep} does not fit tp={layout.tp} dp={layout.dp}: experts are split over a divisor of tp, or over "
            f"whole tensor-parallel groups up to tp x dp = {layout.tp * layout.dp}"
        )
    for layer in architecture.layers:
        _check_attention(layer.attention, layout.tp)
        _check_mlp(layer.mlp, layout)


def _check_attention(attention: Attention | Latent, tp: int) -> None:
    _splits(attention.heads, tp, "attention heads", TENSOR)
    if isinstance(attention, Attention) and max(attention.kv_heads, tp) % min(attention.kv_heads, tp):
        raise InputError(
            f"{attention.kv_heads} key heads can be neither split over tp={tp} nor repeated on it; "
            f"tp can be a divisor or a multiple of {attention.kv_heads}"
        )


def _check_mlp(mlp: Mlp | Experts, layout: Layout) -> None:
    if isinstance(mlp, Mlp):
        _splits(mlp.inter, layout.tp, "intermediate columns", TENSOR)
        return
    _splits(mlp.count, layout.ep, "experts", EXPERT)
    _splits(mlp.inter, layout.expert_tp, "intermediate columns of an expert", f"{TENSOR}/{EXPERT}")
    if mlp.shared:
        _splits(mlp.shared, layout.tp, "intermediate columns of the shared expert", TENSOR)


def stages(architecture: Architecture, pp: int) -> tuple[tuple[tuple[int, Layer], ...], ...]:
    """Layers of every pipeline stage in order: its kinds of layers, each with its place in the architecture and how many of them.

    Stages differ by one layer at most; the first ones have the extra layers, since the last one has the head.
    """
    even, extra = divmod(architecture.depth, pp)
    kinds, start, made = architecture.kinds, 0, []
    for stage in range(pp):
        end = start + even + (stage < extra)
        counts = Counter(kinds[start:end])
        made.append(
            tuple((place, replace(architecture.layers[place], count=counts[place])) for place in sorted(counts))
        )
        start = end
    return tuple(made)


def bubble(pp: int, microbatches: int, interleaved: int = 1) -> float:
    """Share of a pipelined step that a stage waits: (pp - 1) / (interleaved m + pp - 1) with m microbatches.

    A stage works on m microbatches and waits for the pp - 1 that fill and drain the pipeline; with `interleaved` chunks of
    layers per stage each of those waits is as many times shorter.
    """
    return (pp - 1) / (interleaved * microbatches + pp - 1)
