"""Terms of a floor: work on an engine, or bytes over a level or link, each with the ceiling it is judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import MissingFigure, UnknownName
from .figure import Ceiling
from .machine import MAIN, Machine
from .network import collectives, groups, least_bytes
from .roofline import scalar_or_array
from .work import LINK, READ, WRITE, Array, Work, total

SPECIAL = "special.fp32"  # the peak of exp, sqrt, tanh and divisions


@dataclass(frozen=True)
class Term:
    """One thing that takes time at least: work on an engine, or bytes over a level or link."""

    side: str  # compute or memory
    amount: Array
    ceiling: Ceiling
    mix: Array | None = None  # bandwidth of the kernel's access mix, where mixes were measured

    @property
    def rate(self) -> Array:
        return self.ceiling.value if self.mix is None else self.mix

    @property
    def time(self) -> Array:
        return self.amount * (1 / self.rate)  # a product is several times faster than a quotient

    @property
    def stated_time(self) -> Array:
        """At the larger of the stated and the used rate; a measured one that nobody stated, raised by its uncertainty."""
        if self.ceiling.stated is not None:
            return self.amount * (1 / np.maximum(self.rate, self.ceiling.stated))
        raised = 1 + self.ceiling.uncertainty if self.ceiling.kind == "measured" else 1.0
        return self.amount * (1 / (self.rate * raised))


def compute_terms(
    work: Work, machine: Machine, ceilings: str | None, engine: str | None, notes: list[str]
) -> dict[str, Term]:
    """Flops against the peak of the engine that serves them; what a machine lacks goes to `notes`."""
    terms: dict[str, Term] = {}
    for (asked, dtype), flops in work.by_engine().items():
        if not np.any(np.asarray(flops)):
            continue
        try:
            name = machine.engine(asked, dtype, engine)
        except MissingFigure as missing:
            if asked != "vector":
                raise
            # elementwise work is bound by memory almost everywhere, so its bytes still give an answer
            notes.append(f"vector arithmetic left out: {missing}")
            continue
        amount = terms[name].amount + flops if name in terms else flops
        terms[name] = Term("compute", amount, machine.peak(name, ceilings))
    if np.any(np.asarray(work.special)) and SPECIAL in machine.peaks:
        if machine.peaks[SPECIAL].value(ceilings) is not None:
            terms[SPECIAL] = Term("compute", work.special, machine.peak(SPECIAL, ceilings))
        else:
            notes.append(f"{machine.name} has no {ceilings} special-function rate")
    return terms


def memory_terms(
    work: Work, machine: Machine, ceilings: str | None, resident: str | None, notes: list[str]
) -> dict[str, Term]:
    """Bytes against the bandwidth of each level or link; what a machine lacks goes to `notes`."""
    terms: dict[str, Term] = {}
    for level in work.levels():
        if level == LINK:
            terms |= _link_terms(work, machine, ceilings, notes)
        elif level == MAIN:
            name = machine.level(resident or MAIN).name
            terms[name] = _level_term(work, level, machine, name, ceilings)
        elif any(link.name == level for link in machine.links):
            figure = machine.link(level).per_direction
            terms[level] = Term("memory", work.bytes_at(level), machine.ceiling(figure, level, ceilings))
        else:
            try:
                terms[level] = _level_term(work, level, machine, level, ceilings)
            except (MissingFigure, UnknownName) as missing:
                notes.append(f"level {level} left out: {missing}")
    if MAIN in work.levels():  # last, because the ridge is taken against the last one
        name = machine.level(resident or MAIN).name
        terms[name] = terms.pop(name)
    return terms


def _level_term(work: Work, crossed: str, machine: Machine, level: str, ceilings: str | None) -> Term:
    """The bytes of work at a level over the bandwidth of the level that feeds it.

    A CPU reads a line before it stores to it. The measured mixes do not count that, so that what is read anyway and written back in
    place takes no longer than what is written alone: axpy, optimizers.
    """
    moved = work.bytes_at(crossed)
    in_place = _rewritten(work, crossed) if machine.kind == "cpu" else 0.0
    mix = _of_mix(machine.mixes(level, ceilings), work.bytes_at(crossed, WRITE), moved - in_place)
    if mix is not None and np.any(in_place):
        mix = scalar_or_array(mix * np.asarray(moved / np.maximum(moved - in_place, 1e-300)))
    return Term("memory", moved, machine.bandwidth(level, ceilings), mix)


def _rewritten(work: Work, level: str) -> Array:
    """Bytes of what is read and written back in place."""
    moves = {(tensor, way): value for (at, tensor, way), value in work.moves.items() if at == level}
    read = {tensor: value for (tensor, way), value in moves.items() if way == READ}
    return total(
        np.minimum(read[tensor], value) for (tensor, way), value in moves.items() if way == WRITE and tensor in read
    )


def _link_terms(work: Work, machine: Machine, ceilings: str | None, notes: list[str]) -> dict[str, Term]:
    """Bytes over the links that the ranks of collectives use; what is no collective crosses the machine's first link."""

    def rate(name: str) -> Ceiling:
        return machine.ceiling(machine.link(name).per_direction, name, ceilings)

    kernels = collectives(work)
    if not kernels:
        name = machine.link().name
        return {name: Term("memory", work.bytes_at(LINK), rate(name))}
    used: dict[str, Ceiling] = {}
    least: dict[str, Array] = {}
    for kernel in kernels:
        routes = groups(machine, kernel.sizes["ranks"])
        used |= {link.name: rate(link.name) for route in routes for link in (route.inner, route.network) if link}
        notes += [note for note in dict.fromkeys(route.note(machine.name) for route in routes) if note]
        notes += [note for route in routes if kernel.op == "p2p" and (note := route.peer_note())]
        moved = least_bytes(kernel, machine, {name: ceiling.value for name, ceiling in used.items()})
        least = {name: least.get(name, 0.0) + moved.get(name, 0.0) for name in {**least, **moved}}
    return {name: Term("memory", scalar_or_array(np.asarray(moved)), used[name]) for name, moved in least.items()}


def _of_mix(mixes: list[tuple[float, float, str]], written: Array, moved: Array) -> Array | None:
    """Bandwidth at the share of bytes that is written; between measured mixes, the seconds per byte on a line.

    Taking the nearest mix instead would let the time fall as a kernel moves more bytes and passes from one to the next.
    """
    if not mixes:
        return None
    fastest: dict[float, float] = {}
    for share, rate, _ in mixes:
        fastest[share] = max(rate, fastest.get(share, 0.0))
    shares = sorted(fastest)
    written_share = written / np.maximum(moved, 1e-300)  # of no bytes any, since they take no time
    per_byte = np.interp(written_share, shares, [1 / fastest[share] for share in shares])
    return scalar_or_array(1 / np.asarray(per_byte))
