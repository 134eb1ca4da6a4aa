"""The expected time of the collectives of a step, the algorithm and the links it takes, algorithm and bus bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound
from ..core.collectives import ALGORITHMS, FABRIC, HOST, Path, expected
from ..core.families import TimeItem
from ..core.figure import NETWORK
from ..core.network import Group, collectives, groups, sent
from ..core.roofline import label, scalar_or_array
from ..core.units import show
from ..core.work import Array, Kernel, total
from ..machines.defaults import defaults

# Ends of intervals, as factors on the latency of a collective and on what its bytes take: they hold 80 % of published times below and
# above 1 MB.
LATENCY_INTERVAL, BYTES_INTERVAL = (0.82, 3.0), (0.82, 1.42)
MOST_RANKS = 16  # of a published time, on two nodes
OWN = "transferred from published nccl-tests or rccl-tests tables of this machine"
OTHERS = "transferred from published nccl-tests and rccl-tests tables of other machines"


@cache
def paths() -> Mapping[str, Path]:
    return {
        FABRIC: Path(**defaults("collective_fabric")),
        HOST: Path(**defaults("collective_host")),
        NETWORK: Path(**defaults("collective_network")),
    }


@dataclass(frozen=True)
class Collective:
    """One collective on the links of a machine, case by case."""

    kernel: Kernel
    time: Array
    latency: Array
    algorithm: str | NDArray[np.str_]
    network: str | NDArray[np.str_]  # the links it crosses, `nvlink` or `nvlink+nic`
    basis: str

    DOCUMENT: ClassVar = ("algorithm", "network", "algbw", "busbw")

    @property
    def algbw(self) -> Array:
        """Algorithm bandwidth: bytes of the buffer over the time, as nccl-tests counts them."""
        return self.kernel.sizes["bytes"] / self.time

    @property
    def busbw(self) -> Array:
        """Bus bandwidth: what each rank would send by a ring, over the time."""
        return self.algbw * sent(self.kernel.op, self.kernel.sizes["ranks"], reduces=False)

    def line(self, spelled: Callable[[str], str]) -> str:
        """`ring over NVLink · algbw 152 GB/s · busbw 266 GB/s`, of one case; `spelled` is how people write a link."""
        algorithm, network, *rates = (np.ravel(getattr(self, name))[0] for name in self.DOCUMENT)
        links = " and ".join(spelled(name) for name in str(network).split("+"))
        shown = (f"{name} {show(float(rate), 'B/s', 3)}" for name, rate in zip(("algbw", "busbw"), rates, strict=True))
        return " · ".join([f"{algorithm} over {links}", *shown])

    def end(self, end: str) -> Array:
        """An end of the 80 % interval, as a factor on the time: more bytes take what more bytes take, above the same latency."""
        place = ("low", "high").index(end)
        latency = np.minimum(self.latency / self.time, 1.0)
        return scalar_or_array(latency * LATENCY_INTERVAL[place] + (1 - latency) * BYTES_INTERVAL[place])


def collective_items(made: Sequence[Collective], floor: Array, time: Array) -> tuple[TimeItem, ...]:
    """Where a time goes that lies at or above the floor."""
    floor = np.minimum(floor, time)
    latency = np.minimum(total(collective.latency for collective in made), time - floor)
    return (
        TimeItem("floor", "main", floor),
        TimeItem("start and hops", "other", latency),
        TimeItem("below peak rate", "other", time - floor - latency),
    )


def step_collectives(bound: Bound) -> tuple[Collective, ...]:
    return tuple(_collective(bound, kernel) for kernel in collectives(bound.work))


def _collective(bound: Bound, kernel: Kernel) -> Collective:
    start = defaults("collective")["start"] + bound.launch
    parts = [_Part.of(bound, kernel, group, start) for group in groups(bound.machine, kernel.sizes["ranks"])]
    names = tuple(dict.fromkeys(part.links for part in parts))
    time, latency, algorithm, network = (np.zeros(()) for _ in range(4))
    for part in parts:
        time = np.where(part.applies, part.values["time"], time)
        latency = np.where(part.applies, part.values["latency"], latency)
        algorithm = np.where(part.applies, part.values["algorithm"], algorithm)
        network = np.where(part.applies, names.index(part.links), network)
    return Collective(
        kernel,
        scalar_or_array(time),
        scalar_or_array(latency),
        label(algorithm.astype(np.int64), ALGORITHMS),
        label(network.astype(np.int64), names),
        "; ".join(dict.fromkeys(part.basis for part in parts)),
    )


@dataclass(frozen=True)
class _Part:
    """The cases of a collective that take the same links."""

    links: str
    basis: str
    applies: NDArray[np.bool_]
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, bound: Bound, kernel: Kernel, group: Group, start: float) -> _Part:
        links = [link for link in (group.inner, group.network) if link is not None]
        rates = {link.name: bound.terms[link.name].ceiling.value for link in links}
        times = expected(kernel.op, kernel.sizes["bytes"], group, rates, paths(), start)
        name = "+".join(link.name for link in links)
        basis = f"{OTHERS if group.inner.latency.value() is None else OWN} (collectives over {name})"
        if np.any(group.applies & (group.ranks > MOST_RANKS)):
            basis = f"{basis}, extrapolated beyond their {MOST_RANKS} ranks"
        return cls(name, basis, group.applies, vars(times))
