"""Machine to machine file: the same format the catalog has, so that a measured machine is one more of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ..core.figure import Figure, Level
from ..core.machine import Machine
from . import coefficients as fitted

SOURCE = "unsourced"  # stands for figures whose origin is told by their derivation or measurement alone


def _text(value: str) -> str:
    """A TOML basic string; its escapes are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _text(name)


def _table(entries: Iterable[tuple[str, str]]) -> str:
    return "{ " + ", ".join(f"{_key(name)} = {value}" for name, value in entries) + " }"


class _Writer:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.keys = {text: name for name, text in machine.sources.items()}
        self.extra: dict[str, str] = {}

    def source(self, text: str) -> str:
        """The short name of a source; one the file does not list yet is added to it."""
        text = text or "no document; see the derivation or measurement beside the figure"
        if text not in self.keys:
            name = SOURCE if SOURCE not in self.machine.sources and not self.extra else f"source{len(self.extra) + 1}"
            self.keys[text] = name
            self.extra[name] = text
        return self.keys[text]

    def figure(self, figure: Figure) -> str | None:
        """A figure as an inline table, None where nothing is known."""
        found: list[tuple[str, str]] = []
        for kind in ("stated", "derived", "measured", "sustained"):
            value = getattr(figure, kind)
            if value is not None:
                found.append((kind, _text(f"{value!r} {figure.unit}".rstrip())))
        if not found:
            return None
        for name in ("derivation", "measurement", "differs"):
            if getattr(figure, name):
                found.append((name, _text(getattr(figure, name))))
        if figure.measured is not None and not figure.measurement:
            found.append(("measurement", _text("not told")))
        if figure.spread is not None:
            found.append(("spread", repr(figure.spread)))
        found.append(("source", _text(self.source(figure.source))))
        return _table(found)

    def section(self, title: str, figures: Mapping[str, Figure]) -> list[str]:
        lines = [f"{_key(name)} = {text}" for name, figure in figures.items() if (text := self.figure(figure))]
        return [f"[{title}]", *lines, ""] if lines else []

    def level(self, level: Level) -> list[str]:
        lines = [
            "[[level]]",
            f"name = {_text(level.name)}",
            f"scope = {_text(level.scope)}",
            f"instances = {level.instances}",
        ]
        lines.append(f"source = {_text(self.source(level.source))}")
        lines += [
            f"{key} = {_text(text)}" for key, text in (("technology", level.technology), ("note", level.note)) if text
        ]
        figures = {"capacity": level.capacity, "bandwidth": level.bandwidth, "latency": level.latency}
        lines += [f"{name} = {text}" for name, figure in figures.items() if (text := self.figure(figure))]
        mixes = [(name, text) for name, figure in level.mixes.items() if (text := self.figure(figure))]
        if mixes:
            lines += ["[level.mixes]", *(f"{_key(name)} = {text}" for name, text in mixes)]
        return [*lines, ""]

    def peaks(self) -> list[str]:
        titles = {
            "vector": "peak.vector",
            "tensor": "peak.tensor.dense",
            "tensor-sparse": "peak.tensor.sparse",
            "special": "peak.special",
        }
        lines: list[str] = []
        for engine, title in titles.items():
            mine = {
                name.partition(".")[2]: figure
                for name, figure in self.machine.peaks.items()
                if name.partition(".")[0] == engine
            }
            lines += self.section(title, mine)
        return lines

    def document(self) -> str:
        one = self.machine
        head = [
            f"{key} = {_text(getattr(one, key))}"
            for key in ("name", "title", "vendor", "kind", "architecture", "ecc")
            if getattr(one, key)
        ]
        if one.released:
            head.append(f"released = {one.released}")
        head += [
            f"{key} = [{', '.join(_text(text) for text in getattr(one, key))}]"
            for key in ("aliases", "notes")
            if getattr(one, key)
        ]
        head += [
            f"{key} = {text}"
            for key, figure in (("tdp", one.tdp), ("launch", one.launch), ("dispatch", one.dispatch))
            if (text := self.figure(figure))
        ]
        body: list[str] = []
        for title, counts in (("units", one.units),):
            if counts:
                body += [f"[{title}]", *(f"{_key(name)} = {count}" for name, count in counts.items()), ""]
        body += self.section("clock", one.clocks) + self.peaks()
        for level in one.levels:
            body += self.level(level)
        for link in one.links:
            text = self.figure(link.per_direction)
            if text:
                body += ["[[link]]", f"name = {_text(link.name)}", f"per_direction = {text}"]
                body += [
                    f"{key} = {_text(words)}"
                    for key, words in (("topology", link.topology), ("note", link.note))
                    if words
                ]
                body.append("")
        body += self.section("limit", one.limits) + self.section("energy", one.energy)
        if one.efficiency:
            body.append("[efficiency]")
            for name, figure in one.efficiency.items():
                entries = [
                    ("value", repr(figure.measured)),
                    ("source", _text(self.source(figure.source))),
                    ("note", _text(figure.measurement)),
                ]
                body.append(f"{_text(name)} = {_table(entries)}")
            body.append("")
        if one.conditions:
            body += ["[conditions]", *(f"{_key(name)} = {_text(text)}" for name, text in one.conditions.items()), ""]
        sources = [
            "[sources]",
            *(f"{_key(name)} = {_text(text)}" for name, text in (dict(one.sources) | self.extra).items()),
            "",
        ]
        own = {key: row for key, row in one.fitted.items() if not row.borrowed}
        return "\n".join([*head, "", *sources, *body, *([fitted.text(own)] if own else [])])


def text(machine: Machine) -> str:
    """The TOML text of a machine; reading it gives the same machine again."""
    return _Writer(machine).document()
