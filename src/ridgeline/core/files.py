"""The user's folders, and files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .errors import InputError


def folder(kind: str) -> Path:
    """The user's folder of a kind: `config`, `cache` or `data`."""
    try:
        import platformdirs
    except ImportError:  # a plain checkout without its dependencies still works
        return Path.home() / {"config": ".config", "cache": ".cache", "data": ".local/share"}[kind] / "ridgeline"
    path: Path = getattr(platformdirs, f"user_{kind}_path")("ridgeline")
    return path


def writable(path: str | Path) -> Path:
    """The file that is meant, where it can be written; else one message. For before long work as well as at its end."""
    asked = Path(path).expanduser()
    target = Path(os.path.realpath(asked))  # a link keeps pointing where it points
    if target.is_dir():
        raise InputError(f"cannot write '{asked}': it is a folder; name a file in it")
    if not target.parent.is_dir():
        raise InputError(f"cannot write '{asked}': the folder '{asked.parent}' does not exist; create it first")
    if not os.access(target.parent, os.W_OK):
        raise InputError(
            f"cannot write '{asked}': the folder '{asked.parent}' is not yours to write; choose another place"
        )
    return target


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a draft beside the file, then put it in place at once; on any error nothing is left behind."""
    asked, target = Path(path).expanduser(), writable(path)
    draft = target.with_name(f".{target.stem[:80]}.{secrets.token_hex(4)}.part{target.suffix}")
    try:
        write(draft)
        if target.exists() and not target.is_file():
            target.write_bytes(draft.read_bytes())  # a device or a pipe is written to, not replaced
        else:
            os.replace(draft, target)
    except OSError as error:
        raise InputError(f"cannot write '{asked}': {error.strerror or error}; choose another place") from error
    finally:
        with suppress(OSError):  # a read-only file system has no draft, and says so a second time
            draft.unlink(missing_ok=True)
    return asked


def write_text(path: str | Path, text: str) -> Path:
    return write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
