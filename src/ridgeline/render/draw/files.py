"""Writes a chart to a file in the format of its suffix; the file is complete or not there at all.

Renderers are found by listing this folder: every module with `SUFFIXES` and `render(picture, path, theme)`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from ...core.errors import InputError
from ...core.files import user_path, write_atomically
from ..chart import Picture


@cache
def renderers() -> dict[str, ModuleType]:
    """Suffix to module; the first in alphabetical order keeps a suffix that two claim."""
    by_suffix: dict[str, ModuleType] = {}
    for name in sorted(module.name for module in iter_modules([str(Path(__file__).parent)])):
        module = import_module(f".{name}", __package__)
        if hasattr(module, "render"):
            for suffix in getattr(module, "SUFFIXES", ()):
                by_suffix.setdefault(suffix, module)
    return by_suffix


def save(picture: Picture, path: str | Path, theme: str = "light") -> Path:
    """Write the picture. The new file appears when it is complete; an old one stays until then."""
    target = user_path(path)
    suffix = target.suffix.lower()
    known = renderers()
    if suffix not in known:
        reason = f"{suffix!r} is not a format known here" if suffix else "it has no suffix"
        raise InputError(f"cannot draw to '{target}': {reason}; use one of {', '.join(sorted(known))}")
    return write_atomically(target, lambda draft: known[suffix].render(picture, draft, theme))
