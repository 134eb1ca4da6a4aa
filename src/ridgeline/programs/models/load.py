"""A model by name: from the list of known ones, a Hugging Face repository's name that is on it, or a `config.json`.

Case, `-`, `_` and blanks never matter, nor do the endings of tuned and quantized variants, which have the same sizes.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ...core.errors import InputError, UnknownName, letters, unknown
from ...core.intake import clean
from .architecture import Architecture
from .hf import read_config

KNOWN = Path(__file__).parent / "known"
OURS = (
    "source",
    "published",
    "outside",
    "like",
    "aliases",
    "note",
)  # keys of an entry that are no fields of a configuration
WEIGHT_FILES = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
NULL = "null"  # TOML has no null, which some fields need to switch off what a default has
# Endings of names whose models have the sizes of the name before.
VARIANT = re.compile(
    r"[-_ ]+(instruct|chat|it|pt|base|hf|fp8|bf16|fp4|nvfp4|fp4[-_ ]tp\d|awq|gptq|int4|int8|thinking|v0\.1|2507|\d{4})$",
    re.IGNORECASE,
)
# Formats that such endings name; 4-bit integers have a scale per 128 weights unless a configuration says otherwise.
STORED = {
    "fp8": "fp8_e4m3", "fp4": "nvfp4", "nvfp4": "nvfp4", "awq": "int4_g128", "gptq": "int4_g128", "int4": "int4_g128", "int8": "int8",
}  # fmt: skip
# Models of images, which are traced and not read from a configuration, by the program that has them.
# families by how their names begin, behind an owner's: T5 and what is built on it, Switch Transformers, BART, speech, translation
ENCODER_DECODERS = re.compile(
    r"(?:^|/)(?:flan-?|m|um|by|long-?)?(?:t5|bart|switch|pegasus|whisper|marian|m2m)(?![a-su-wyz])"
)
TRACED = {
    **dict.fromkeys(("resnet50", "resnet"), "resnet50.py:inference"),
    **dict.fromkeys(("vit", "vitb", "vitb16", "vitbase"), "vit.py:inference"),
    **dict.fromkeys(("vitl", "vitl16", "vitlarge"), "vit.py:large"),
}


@dataclass(frozen=True)
class Entry:
    """A known model: the fields of its configuration, where they are from, and the published count of parameters."""

    name: str
    source: str
    published: int | float | None  # exact where it is whole, else rounded; None where the source gives none
    outside: int  # parameters of the published count that are not of the language model
    config: dict[str, Any]
    aliases: tuple[str, ...] = ()
    note: str = ""


@cache
def entries() -> dict[str, Entry]:
    """All known models by name."""
    tables: dict[str, dict[str, Any]] = {}
    for file in sorted(KNOWN.glob("*.toml")):
        tables |= tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        name: Entry(
            name,
            table["source"],
            table.get("published"),
            table.get("outside", 0),
            _config(tables, name),
            tuple(table.get("aliases", ())),
            table.get("note", ""),
        )
        for name, table in tables.items()
    }


def _config(tables: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The fields of an entry over those of the entry that it is like."""
    table = tables[name]
    base = _config(tables, table["like"]) if "like" in table else {}
    return base | {key: None if value == NULL else value for key, value in table.items() if key not in OURS}


def known() -> tuple[str, ...]:
    """The names of the known models."""
    return tuple(sorted(entries()))


@cache
def _spellings() -> dict[str, str]:
    """Names, aliases and names of repositories, without what hands vary, to names."""
    spelt: dict[str, str] = {}
    for name, item in entries().items():
        repository = item.source.rpartition("/")[2] if " " not in item.source else ""
        for each in (name, *item.aliases, *([repository] if repository else [])):
            spelt.setdefault(letters(each), name)
    return spelt | {letters(name): name for name in entries()}


def resolve(asked: str) -> str | None:
    """The name of a known model by any spelling; None where none is meant."""
    spelt = _spellings()
    word = asked.strip().rpartition("/")[2] if asked.count("/") == 1 else asked.strip()
    while word:
        if letters(word) in spelt:
            return spelt[letters(word)]
        shorter = VARIANT.sub("", word)
        if shorter == word:
            return None
        word = shorter
    return None


def entry(asked: str) -> Entry:
    """A known model; UnknownName with the nearest names where there is none of that name."""
    name = resolve(asked)
    if name is not None:
        return entries()[name]
    example = TRACED.get(letters(asked).replace("/", ""))
    if example:
        raise UnknownName(
            f"'{clean(asked, 60)}' has no configuration to read; trace its program: `ridgeline trace examples/programs/{example}`"
        )
    if ENCODER_DECODERS.search(asked.lower()):
        raise UnknownName(
            f"'{clean(asked, 60)}' is an encoder-decoder: only decoders and encoders are counted from a configuration. Trace its module "
            "from `transformers`, weights are not needed: `ridgeline trace FILE.py:NAME`"
        )
    aliases = [alias for item in entries().values() for alias in item.aliases]
    raise unknown("model", asked, [*known(), *aliases])


def architecture(model: str | Path | Architecture) -> Architecture:
    """An architecture as given, of a known model, or of a `config.json` or the folder that has it."""
    if isinstance(model, Architecture):
        return model
    if isinstance(model, Path) or _is_path(model):
        if Path(model).suffix.lower() in WEIGHT_FILES:
            raise InputError(
                f"'{clean(str(model), 200)}' is a file of weights; give the config.json of the model, or the folder that has it"
            )
        return read_config(model)
    item = entry(model)
    read = read_config(item.config, item.name)
    stored = read.weights if "quantization_config" in item.config else _stored(model) or read.weights
    return replace(read, weights=stored, notes=(*([item.note] if item.note else []), *read.notes))


def _stored(asked: str) -> str | None:
    """The format of the weights that a name ends with, as quantized variants do; None where it names none."""
    words = re.split(r"[-_ /]+", asked.lower())
    return next((STORED[word] for word in reversed(words) if word in STORED), None)


def _is_path(text: str) -> bool:
    """A file by its suffix or its folders; `owner/name` is a repository where it is no folder."""
    if text.endswith(".json") or text.startswith((".", "/", "~")) or "\\" in text:
        return True
    if Path(text).suffix.lower() in WEIGHT_FILES:
        return True
    if resolve(text) is not None:
        return False
    return Path(text).is_dir() or ("/" in text and (text.count("/") > 1 or Path(text).exists()))
