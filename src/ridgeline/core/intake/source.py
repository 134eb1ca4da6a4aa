"""Bytes of a file as text, packed or not, in any usual encoding, and never more of them than the limits accept."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from ..errors import InputError
from .limits import limit, over

HEAD = 1 << 16  # characters that are enough to recognise a format
BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
GZIP = b"\x1f\x8b"
PIECE = 1 << 20  # bytes that are read at a time
FREELY = 64 << 20  # bytes that a packed file may become, however small it is


class Limited(io.RawIOBase):
    """The bytes of a file, unpacked where it is packed; over a limit they end with its refusal."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.file = io.BufferedReader(path.open("rb", buffering=0), PIECE)
        self.packed = self.file.peek(2)[:2] == GZIP
        self.source = cast(BinaryIO, gzip.GzipFile(fileobj=self.file) if self.packed else self.file)
        self.most, self.limit_name = limit("read"), "read"
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        size = self.source.readinto(buffer)  # type: ignore[attr-defined]
        self.count += size
        if self.count > self.most:
            raise over(self.limit_name, f"'{self.name}'{' unpacked' if self.packed else ''}")
        if self.packed and self.count > max(FREELY, limit("unpacking") * self.file.tell()):
            raise over("unpacking", f"what '{self.name}' unpacks to")
        return int(size)

    def close(self) -> None:
        if not self.closed:
            self.source.close()
            self.file.close()
        super().close()


class Text(io.TextIOWrapper):
    """Text whose lines end, with an error where one is longer than the limit; all of it at once is a document."""

    def __init__(self, source: Limited, errors: str) -> None:
        self.source = source
        buffered = io.BufferedReader(source, PIECE)
        start = buffered.peek(4)[:4]
        encoding = next((name for mark, name in BYTE_ORDER_MARKS if start.startswith(mark)), "utf-8")
        super().__init__(buffered, encoding=encoding, errors=errors, newline="")
        self.longest = int(limit("line"))

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        line = super().readline(self.longest if size < 0 else size)
        if len(line) == self.longest:
            raise over("line", f"a line of '{self.source.name}'")
        return line

    def read(self, size: int | None = -1) -> str:
        if size is None or size < 0:
            self.source.most, self.source.limit_name = limit("document"), "document"
        return super().read(size)


@contextmanager
def opened(path: Path, strict: bool = False) -> Iterator[TextIO]:
    """The text of a file; whatever goes wrong while it is read is one InputError.

    Bytes that are not of its encoding become U+FFFD, or end it where it is read `strict`.
    """
    try:
        with Limited(path) as source, Text(source, "strict" if strict else "replace") as text:
            yield text
    except UnicodeDecodeError as error:
        raise no_text(path) from error
    except EOFError as error:
        raise InputError(f"'{path}' is cut off: {error}; copy or record it again") from error
    except (OSError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"cannot read '{path}': {why}; check that the file is whole and readable") from error
    except ValueError as error:  # a path that no file can have
        if "null byte" not in str(error):
            raise
        raise InputError(f"cannot read {str(path)!r}: {error}") from error
    except MemoryError as error:
        raise InputError(
            f"cannot read '{path}': it needs more memory than there is; give a smaller part of it"
        ) from error


def refuse_bomb(path: Path) -> None:
    """InputError where a packed file becomes too much; its bytes are counted before any work is done on them."""
    with opened(path) as text:
        source = cast(Text, text).source
        while source.packed and source.read(PIECE):
            pass


def head(path: Path) -> str:
    """The first characters of a file, enough to recognise what wrote it."""
    with opened(path) as text:
        return text.read(HEAD)


def whole_text(path: Path) -> str:
    """All of a text file, which must be UTF-8 or UTF-16 throughout."""
    with opened(path, strict=True) as stream:
        text = stream.read().removeprefix("\ufeff")
    if "\0" in text:  # as UTF-16 has them where it does not say so
        raise no_text(path)
    return text


def no_text(path: Path) -> InputError:
    return InputError(f"{path} is not a text file in UTF-8 or UTF-16; save it again as UTF-8")
