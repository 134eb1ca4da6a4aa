"""Machine to machine file: the same format the catalog has, so that a measured machine is one more of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..core.documents import to_document
from ..core.figure import Figure, Level, Link
from ..core.machine import Machine
from .coefficients import FROM, beside_catalog

_PLAIN = re.compile(r"[\w .+\n-]*", re.ASCII)
_NEARBY = re.compile(r'^nearby = "nearby of [^"\n]*"$', re.MULTILINE)
NO_SOURCE = "no document; see the derivation or measurement with the figure"


class _Sources:
    """Short names of sources; one the machine does not list yet gets a name of its own."""

    def __init__(self, listed: Mapping[str, str]) -> None:
        self.texts = dict(listed)
        self.names = {text: name for name, text in listed.items()}

    def name(self, text: str) -> str:
        text = text or NO_SOURCE
        if text not in self.names:
            candidates = ("unsourced", *(f"source{number}" for number in range(1, len(self.texts) + 2)))
            self.names[text] = next(name for name in candidates if name not in self.texts)
            self.texts[self.names[text]] = text
        return self.names[text]


def _figure(figure: Figure, sources: _Sources) -> dict[str, Any]:
    """A figure as a table, an empty one where nothing is known."""
    table: dict[str, Any] = {
        kind: f"{float(value)!r} {figure.unit}".rstrip()
        for kind in ("stated", "derived", "measured", "sustained")
        if (value := getattr(figure, kind)) is not None
    }
    if not table:
        return {}
    table |= {key: text for key in ("derivation", "measurement", "differs") if (text := getattr(figure, key))}
    if figure.measured is not None and not figure.measurement:
        table["measurement"] = "method not recorded"
    if figure.spread is not None:
        table["spread"] = float(figure.spread)
    return {**table, "source": sources.name(figure.source)}


def _figures(figures: Mapping[str, Figure], sources: _Sources) -> dict[str, Any]:
    return _known({name: _figure(figure, sources) for name, figure in figures.items()})


def _known(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value}


def _peaks(machine: Machine, sources: _Sources) -> dict[str, Any]:
    def engine(name: str) -> dict[str, Any]:
        start = f"{name}."
        peaks = {peak.removeprefix(start): figure for peak, figure in machine.peaks.items() if peak.startswith(start)}
        return _figures(peaks, sources)

    vector, tensor = engine("vector"), _known({"dense": engine("tensor"), "sparse": engine("tensor-sparse")})
    return _known({"vector": vector, "tensor": tensor, "special": engine("special")})


def _level(level: Level, sources: _Sources) -> dict[str, Any]:
    figures = {"capacity": level.capacity, "bandwidth": level.bandwidth, "latency": level.latency}
    head = {"name": level.name, "scope": level.scope, "instances": level.instances}
    words = {
        "source": sources.name(level.source) if level.source else "",
        "technology": level.technology,
        "note": level.note,
    }
    return _known({**head, **words, **_figures(figures, sources), "mixes": _figures(level.mixes, sources)})


def _link(link: Link, sources: _Sources) -> dict[str, Any]:
    speed = _figure(link.per_direction, sources)
    head = {key: getattr(link, key) for key in ("topology", "links", "devices", "dimensions", "reduces", "note")}
    shares = {key: _share(getattr(link, key), sources) for key in ("efficiency", "in_network")}
    rest = _known({**head, "latency": _figure(link.latency, sources), **shares})
    return {"name": link.name, **rest, "per_direction": speed} if speed else {}


def _share(share: Figure, sources: _Sources) -> dict[str, Any]:
    if share.measured is None:
        return {}
    return {"value": share.measured, "source": sources.name(share.source), "note": share.measurement}


SINGLE_FIGURES = ("tdp", "launch", "dispatch", "eager_call", "backward_call")


def _document(machine: Machine) -> dict[str, Any]:
    """The tables of a machine file, those left out that would be empty; coefficients come apart."""
    sources = _Sources(machine.sources)
    heads = ("name", "title", "vendor", "kind", "architecture", "ecc", "released", "aliases", "notes")
    tables = {
        **{key: to_document(getattr(machine, key)) for key in heads},
        **_figures({name: getattr(machine, name) for name in SINGLE_FIGURES}, sources),
        "units": dict(machine.units),
        "clock": _figures(machine.clocks, sources),
        "peak": _peaks(machine, sources),
        "level": [_level(level, sources) for level in machine.levels],
        "link": [table for link in machine.links if (table := _link(link, sources))],
        "per_core": _figures(machine.per_core, sources),
        "per_cycle": dict(machine.per_cycle),
        "limit": _figures(machine.limits, sources),
        "energy": _figures(machine.energy, sources),
        "efficiency": {name: _share(share, sources) for name, share in machine.efficiency.items()},
        "conditions": dict(machine.conditions),
    }
    return _known({**tables, "sources": sources.texts})


def text(machine: Machine) -> str:
    """The TOML text of a machine; reading it gives the same machine again."""
    import tomli_w  # here, because reading and predicting do without it

    # by a mark that stands in their place: a million digits need no escapes, and are read faster where there can be none
    timings: dict[str, str] = {}
    rows = {}
    catalog, own = beside_catalog(machine)
    for key, row in own.items():
        nearby = str(row.nearby)
        if _PLAIN.fullmatch(nearby) and "\n" in nearby:
            mark = f"nearby of {key}"
            timings[f'nearby = "{mark}"'], nearby = f"nearby = '''\n{nearby}'''", mark
        rows[str(key)] = {"coefficients": {}, **_known({**to_document(row), "nearby": nearby})}
    # tables of timings as multi-line strings, which normalise line ends; other texts must read back to the letter
    coefficients = tomli_w.dumps({"fitted": rows}, multiline_strings=True) if rows else ""
    if timings:
        coefficients = _NEARBY.sub(lambda line: timings.get(line[0], line[0]), coefficients)
    return "\n".join(filter(None, (tomli_w.dumps(_known({FROM: catalog, **_document(machine)})), coefficients)))
