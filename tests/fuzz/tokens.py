"""Pieces that parsers trip over, and mutations of bytes that put them where a value is."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Sequence
from functools import cache

DEEP = 3000
NUMBERS = (
    "NaN", "nan", "Infinity", "-Infinity", "inf", "1e999", "-1e999", "1e308", "1e-320", "1e-400", "-0", "-0.0", "-1", "0", "1",
    "0.0", "9" * 400, "1" + "0" * 1500, "0." + "0" * 400 + "1", "1e" + "9" * 30, "18446744073709551616", "9007199254740993",
    "0x10", "1_000", "1,5", "1.234.567,8", "1,234", "+5", ".", "1.", ".5", "1e5e5", "\u0661\u0662", "\uff11", "\u00b2", "True",
    "null", "1 000", "1.5 us", "1e400 us", "-3 us", "2^99999", "9**9**9", "1..1e308E", "1..1e18:1", "16M", "1e18E", "0..0",
)  # fmt: skip
TEXTS = (
    "", " ", "\x1b[31m", "\x1b]0;x\x07", "\x9b31m", "\ufeff", "\x00", "\r", "\n", "\x7f", "\u2028", "\u202e", "\ud800", "\udcff",
    "\\ud800", "\\u0000", "<script>", "javascript:x", "](x)", "|", "`", "$x$", "=1+1", "@x", "~nosuch/x", "../../x", "%s%n", "{}",
    "x" * 300, "int4_g" + "9" * 5000, "a" * 70000, "e\u0301" * 50, "\U0001f600", "name", "op", "gemm", "time_us", "samples", '"',
    "'", ",", ";", "\t", "#", "[[level]]", "fp8_e4m3_g0", "here", "\u00b5s",
)  # fmt: skip
VALUES = (
    "null", "true", "[]", "{}", '""', '"\\ud800"', '"\\u0000"', '"\\u001b[31m"', "[1,2]", '{"a":1}', "[[]]", "[null]", "[NaN]",
    "[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP, '{"a":' * 200 + "1" + "}" * 200, "[" + "0," * 2000 + "0]", "-1", '"1"',
    "1e999", "9" * 400, "9" * 5000, '"' + "x" * 3000 + '"', '"NaN"', "1.5", "-0",
)  # fmt: skip
ALL = (*NUMBERS, *TEXTS, *VALUES)
BYTES = (
    b"\xff",
    b"\xfe\xff",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xc3\x28",
    b"\xf0\x9f",
    b"\x1f\x8b",
    b"\x00" * 8,
)
ATOMS = re.compile(rb'"[^"\n]{0,200}"|[-+]?\d[\d.eE+-]*|[A-Za-z_][\w.-]*')


def encoded(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def _place(chance: random.Random, data: bytes) -> int:
    return chance.randint(0, len(data))


def flip(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    changed = bytearray(data or b" ")
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def insert(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    place = _place(chance, data)
    piece = chance.choice(BYTES) if chance.random() < 0.2 else encoded(chance.choice(ALL))
    return data[:place] + piece + data[place:]


def replace_value(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """A number, text or word of the input by something that is none, or by another one of the same input."""
    atoms = [match.span() for match in ATOMS.finditer(data)]
    if not atoms:
        return insert(chance, data, ())
    start, end = chance.choice(atoms)
    if chance.random() < 0.2:
        other = chance.choice(atoms)
        return data[:start] + data[other[0] : other[1]] + data[end:]
    token = encoded(chance.choice(ALL))
    quoted = data[start : start + 1] == b'"' and chance.random() < 0.5
    return data[:start] + (b'"' + token + b'"' if quoted else token) + data[end:]


def splice(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = chance.choice(others) if others else data
    start = _place(chance, other)
    piece = other[start : start + chance.randint(1, 400)]
    place = _place(chance, data)
    return data[:place] + piece + data[place + chance.choice((0, len(piece))) :]


def cut(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    start = _place(chance, data)
    return data[:start] if chance.random() < 0.3 else data[:start] + data[start + chance.randint(1, 200) :]


def lines(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Lines repeated, swapped or dropped."""
    rows = data.splitlines(keepends=True) or [b""]
    place = chance.randrange(len(rows))
    kind = chance.randrange(3)
    if kind == 0:
        rows[place:place] = [rows[chance.randrange(len(rows))]] * chance.choice((1, 1, 2, 50))
    elif kind == 1:
        other = chance.randrange(len(rows))
        rows[place], rows[other] = rows[other], rows[place]
    else:
        del rows[place]
    return b"".join(rows)


def fields(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """A cell of a table, or an entry of a list, repeated, dropped or replaced."""
    sign = chance.choice((b",", b",", b";", b":", b" "))
    cells = data.split(sign)
    place = chance.randrange(len(cells))
    kind = chance.randrange(3)
    if kind == 0:
        cells[place] = encoded(chance.choice(ALL))
    elif kind == 1:
        cells[place:place] = [cells[place]] * chance.choice((1, 2, 30))
    else:
        del cells[place]
    return sign.join(cells)


MUTATIONS: tuple[Mutation, ...] = (flip, insert, replace_value, replace_value, splice, cut, lines, fields)
MAX_INPUT = 300_000


def mutated(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """An input after a few mutations; one in thirty comes packed."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        data = chance.choice(MUTATIONS)(chance, data, others)[:MAX_INPUT]
    if chance.random() < 1 / 30:
        data = gzip.compress(data, 1, mtime=0)
        if chance.random() < 0.3:
            data = flip(chance, data, ())
    return data


@cache
def _packed(piece: bytes, size: int) -> bytes:
    return gzip.compress(piece * (size // len(piece)), 6, mtime=0)


def bombs(seed: bytes) -> list[bytes]:
    """A few kilobytes that become gigabytes, and texts that are one endless line or one endless nest."""
    row = seed.splitlines()[-1][:400] + b"\n" if seed.strip() else b"x\n"
    start = seed[:20_000]
    member = 1 << 24
    return [
        gzip.compress(start, mtime=0) + _packed(row, member) * 128,
        gzip.compress(start, mtime=0) + _packed(b"0", member) * 128,
        gzip.compress(start[:200], mtime=0) + _packed(b"[", member) * 128,
        start[:2000] + b"9" * 3_000_000,
        start[:2000] + b"," * 2_000_000,
        start[:2000] + b'"' + b"x" * 3_000_000,
        b"[" * 2_000_000,
        b'{"a":' * 500_000,
        b"\n" * 2_000_000,
        row * 2000,
    ]
