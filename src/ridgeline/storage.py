"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from .errors import InputError


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a draft beside the file, then put it in place at once; on any error nothing is left behind."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    draft = Path(name)
    try:
        write(draft)
        draft.chmod(0o666 & ~_mask())
        os.replace(draft, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda draft: _fill(draft, text))


def _fill(draft: Path, text: str) -> None:
    draft.write_text(text, encoding="utf-8")


def _mask() -> int:
    """The process's file mode mask; the system tells it only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
