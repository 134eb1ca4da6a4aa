"""A machine by name: from the catalog, the user's folder, a file, or the one this runs on.

Case, `-`, `_` and blanks never matter. A name is looked up in full first (`h200-sxm`), then as the short form of a usual
variant (`h100`), then as some of a name's dash-separated words in order (`4090`), then as a driver's name (`NVIDIA H200`).
A short form that fits several machines lists them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..core.errors import InputError, UnknownName, letters, unknown
from ..core.intake import clean
from ..core.machine import Machine
from . import coefficients
from .files import HERE, by_driver_name, load_file, paths, saved_measurement

# The variant that people mean by a short form which fits several machines, or none by its words.
USUAL = {
    "p100": "p100-pcie-16gb",
    "v100": "v100-sxm2-32gb", "v100-sxm2": "v100-sxm2-32gb", "v100-pcie": "v100-pcie-32gb",
    "v100-16gb": "v100-sxm2-16gb", "v100-32gb": "v100-sxm2-32gb",
    "a100": "a100-sxm-80gb", "a100-80gb": "a100-sxm-80gb", "a100-40gb": "a100-sxm-40gb", "a100-sxm": "a100-sxm-80gb",
    "a100-sxm4": "a100-sxm-80gb", "a100-sxm4-80gb": "a100-sxm-80gb", "a100-sxm4-40gb": "a100-sxm-40gb",
    "a100-pcie": "a100-pcie-80gb",
    "h100": "h100-sxm", "h100-sxm5": "h100-sxm", "h100-80gb": "h100-sxm",
    "mi250": "mi250x", "mi300": "mi300x", "mi325": "mi325x", "mi355": "mi355x",
    "m1": "apple-m1", "m2": "apple-m2", "m3": "apple-m3", "m4": "apple-m4",
    "xeon": "xeon-8480plus", "sapphire-rapids": "xeon-8480plus", "granite-rapids": "xeon-6980p",
    "epyc": "epyc-9654", "genoa": "epyc-9654", "turin": "epyc-9755",
}  # fmt: skip


def load(name: str | Path) -> Machine:
    """The machine of a name, a short form, a TOML file, or `here` (the one this runs on)."""
    if not isinstance(name, str | Path):
        raise InputError(f"a machine is given by its name, such as 'h100-sxm', or its file; got {type(name).__name__}")
    asked = str(name).strip()
    if asked.lower() == HERE or asked.lower().startswith(f"{HERE}:"):
        return local(asked.partition(":")[2] or None)
    if asked.endswith(".toml") or "/" in asked or "\\" in asked:
        return load_file(Path(asked))
    known = paths()
    spelt = {letters(stem): stem for stem in known} | {stem: stem for stem in known}
    usual = {letters(short): full for short, full in USUAL.items()}
    stem = spelt.get(asked) or spelt.get(letters(asked)) or usual.get(letters(asked))
    if stem is not None:
        return load_file(known[stem])
    key = asked.lower().replace("_", "-").replace(" ", "-")
    fitting = [candidate for candidate in known if key and fits(key, candidate)]
    if len(fitting) == 1:
        return load_file(known[fitting[0]])
    if fitting:
        raise UnknownName(f"'{asked}' fits several machines: {', '.join(sorted(fitting))}; name one of them.")
    machine, remark = by_driver_name(asked)
    if machine is not None:
        return machine
    raise unknown("machine", asked, [*known, *USUAL], remark)


def as_machine(machine: Machine | str | Path) -> Machine:
    """A machine as given, or the one of a name."""
    return machine if isinstance(machine, Machine) else load(machine)


def default() -> Machine | None:
    """The machine this runs on, as measured; None without a saved measurement."""
    file = saved_measurement()
    if file is None:
        return None
    machine = local()
    return machine if machine.file == clean(str(file)) else None


def local(which: str | None = None) -> Machine:
    """The machine this runs on: as it was measured, where a measurement of this very machine was saved, else as detected."""
    from .detect.local import here  # late, because a machine of the catalog needs no detection

    detected = coefficients.with_defaults(here(which))
    path = saved_measurement(which)
    if path is None:
        return detected
    saved = load_file(path)
    if saved.title == detected.title:
        return saved
    note = f"{path} was measured on another machine ({saved.title}) and is not used; measure this one"
    return replace(detected, notes=(*detected.notes, note))


def fits(short: str, name: str) -> bool:
    """Whether a short form is some of a name's words, in order: `a100-80gb` fits `a100-sxm-80gb`, never `a10`."""
    words = iter(name.split("-"))
    return all(part in words for part in short.split("-"))
