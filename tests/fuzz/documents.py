"""Documents of the right shape with wrong values: a seed is parsed, a few of its values are changed, it is written again.

`edited` takes its choices from a `random.Random`: the mutation engine gives it one with a seed, hypothesis one whose
choices it records and shrinks.
"""

from __future__ import annotations

import csv
import io
import json
import random
import sqlite3
import tomllib
from collections.abc import Callable
from functools import cache
from typing import Any

from fuzz.inputs import as_file, workspace
from fuzz.tokens import ALL, NUMBERS, TEXTS, encoded

NEST = json.loads("[" * 100 + "]" * 100)
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 8, -0.0, 0.5, 1.5, 1e-9, 1e-320, 1e9, 1e15, 1e100, 1e308, -1e308, float("nan"), float("inf"),
    float("-inf"), 2**53 + 1, 2**63, 2**64, 10**30, 10**400, -(10**400), [], {}, [1, 2], [None], [[1]], {"a": 1}, {"a": {"b": []}},
    NEST, ["a"], "a", "1", "1e999", "8,16", "1..4", "gemm", "h200-sxm", "bf16",
)  # fmt: skip


def odd(chance: random.Random) -> Any:
    """A value that does not belong where it will be put, or just might."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(TEXTS)
    if kind == 1:
        return chance.choice(NUMBERS)
    return _copied(chance.choice(ODD))


# -- trees: JSON, TOML ---------------------------------------------------------------------------------------------


def _holders(tree: Any) -> list[Any]:
    """Every list and table of a tree."""
    holders, waiting = [], [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            holders.append(value)
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return holders


def edit_tree(chance: random.Random, tree: Any) -> Any:
    """One value replaced, removed, repeated or moved."""
    holders = [holder for holder in _holders(tree) if holder]
    if not holders or chance.random() < 0.02:
        return odd(chance)
    holder = chance.choice(holders)
    key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
    kind = chance.choice(("replace", "replace", "replace", "remove", "repeat", "copy", "rename"))
    if kind == "replace":
        holder[key] = odd(chance)
    elif kind == "remove":
        del holder[key]
    elif kind == "copy":  # a value of another place
        other = chance.choice(holders)
        values = list(other.values()) if isinstance(other, dict) else other
        holder[key] = _copied(chance.choice(values))
    elif isinstance(holder, list):
        holder[key:key] = [_copied(holder[key])] * chance.choice((1, 2, 40))
    else:
        name = str(odd(chance))[:5000] if kind == "rename" else chance.choice(list(holder))
        holder[name] = holder.pop(key)
    return tree


def _copied(value: Any) -> Any:
    """Trees grow together without this: a table that holds itself cannot be written."""
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


def edit_json(chance: random.Random, data: bytes) -> bytes:
    lines = False
    try:
        tree = json.loads(data)
    except ValueError:
        tree, lines = [json.loads(line) for line in data.splitlines() if line.strip()], True
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        tree = edit_tree(chance, tree)
    if lines and isinstance(tree, list):
        return b"".join(encoded(json.dumps(row)) + b"\n" for row in tree)
    return encoded(json.dumps(tree, ensure_ascii=chance.random() < 0.5))


def edit_toml(chance: random.Random, data: bytes) -> bytes:
    import tomli_w

    tree = tomllib.loads(data.decode())
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        tree = edit_tree(chance, tree)
    return encoded(tomli_w.dumps(tree))


# -- tables --------------------------------------------------------------------------------------------------------


def edit_csv(chance: random.Random, data: bytes) -> bytes:
    text = data.decode()
    sign = max(",;", key=text.count)
    rows = list(csv.reader(io.StringIO(text), delimiter=sign))
    for _ in range(chance.choice((1, 1, 2, 4))):
        row = chance.choice([row for row in rows if row])
        place = chance.randrange(len(row))
        kind = chance.choice(("replace", "replace", "replace", "remove", "repeat", "row"))
        if kind == "replace":
            row[place] = str(chance.choice(ALL))
        elif kind == "remove":
            del row[place]
        elif kind == "repeat":
            row[place:place] = [row[place]]
        else:
            rows.insert(chance.randrange(len(rows) + 1), list(row))
    out = io.StringIO()
    csv.writer(out, delimiter=sign, lineterminator=chance.choice(("\n", "\n", "\r\n"))).writerows(rows)
    return encoded(out.getvalue())


def edit_parquet(chance: random.Random, _data: bytes) -> bytes:
    """A table of one to three rows with columns of any type."""
    import pyarrow
    import pyarrow.parquet

    rows = chance.randint(0, 3)
    columns: dict[str, Any] = {}
    for name in ("op", "name", "m", "n", "k", *(("dtype", "count", "\x1b[1m") if chance.random() < 0.3 else ())):
        usual = {"op": "gemm", "name": "a", "dtype": "bf16"}.get(name, 8)
        values = [usual if chance.random() < 0.7 else odd(chance) for _ in range(rows)]
        try:
            columns[name] = pyarrow.array(values)
        except (pyarrow.ArrowException, OverflowError, UnicodeError, TypeError, ValueError):
            columns[name] = pyarrow.array([usual] * rows)
    path = workspace() / "made.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression=chance.choice(("none", "snappy", "gzip")))
    return path.read_bytes()


# -- ledgers -------------------------------------------------------------------------------------------------------


STATEMENTS = (
    "CREATE VIEW extra AS SELECT 1", "CREATE TABLE extra (x)", "DROP TABLE head", "DELETE FROM head", "DELETE FROM record",
    "INSERT INTO head VALUES (2, 0, '')", "ALTER TABLE record ADD COLUMN extra", "PRAGMA user_version = 99", "PRAGMA application_id = 0",
    "CREATE INDEX extra ON record (hash)", "UPDATE record SET content = zeroblob(3000000)", "UPDATE record SET number = -number",
    "ALTER TABLE record RENAME TO others", "UPDATE record SET content = replace(content, '10.0', '1e999')", "PRAGMA encoding = 'UTF-16'",
    "UPDATE head SET count = 9223372036854775807", "UPDATE record SET content = CAST(content AS BLOB)", "PRAGMA journal_mode = WAL",
    "CREATE TRIGGER extra BEFORE INSERT ON record BEGIN INSERT INTO head VALUES (3, 3, 'x'); END",
)  # fmt: skip
COLUMNS = ("number", "schema", "kind", "time", "ridgeline", "content", "content_hash", "previous", "hash")


def edit_ledger(chance: random.Random, data: bytes) -> bytes:
    """What someone does who has SQLite: triggers away, any change, triggers back."""
    path = as_file(data, "edited.sqlite")
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        if chance.random() < 0.4:
            connection.execute(chance.choice(STATEMENTS))
        else:
            value = odd(chance)
            value = json.dumps(value) if isinstance(value, list | dict) else value
            value = encoded(value) if isinstance(value, str) and chance.random() < 0.5 else value
            column, number = chance.choice(COLUMNS), chance.randint(1, 2)
            connection.execute(f"UPDATE record SET {column} = ? WHERE number = ?", (value, number))
        for _, sql in triggers if chance.random() < 0.8 else ():
            connection.execute(sql)
    finally:
        connection.close()
        changed = path.read_bytes()
    return changed


# -- words and commands --------------------------------------------------------------------------------------------


def edit_words(chance: random.Random, data: bytes) -> bytes:
    words = data.decode().split(" ")
    place = chance.randrange(1, len(words)) if len(words) > 1 else 0
    name, equals, _ = words[place].partition("=")
    token = chance.choice((*ALL, "1..64", "1,2,3", "8", "1e9", "2^20", "64Ki", "1..8:x2", "1..100:7"))
    words[place] = f"{name}={token}" if equals and chance.random() < 0.8 else token
    return encoded(" ".join(words))


@cache
def _commands() -> dict[str, list[Any]]:
    import click

    from ridgeline.app.cli import main

    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: list(command.params) for name, command in commands.items() if command}


USUAL = (
    "h200-sxm", "h100", "xeon-8480plus", "gemm", "copy", "attention", "m=8", "n=8", "k=8", "m=1..64", "n=1e6", "fp16", "fp8", "int4_g128", "bf16",
    "l2", "hbm", "8 us", "989 TFLOP/s", "3.35 TB/s", "0.5", "4", "x.md", "x.csv", "x.json", "x.txt", "kernels.csv", "pmc_perf.csv",
    "h200_metrics.csv", "cases.csv", "roofline", "peaks", "moves", "ledger.sqlite", "verify", "show", "report", "stated", "measured", "--", "-v",
)  # fmt: skip


def edit_command(chance: random.Random, data: bytes) -> bytes:
    """Words of a command replaced, or options added that the command has."""
    words = data.decode().split("\n")
    params = _commands().get(words[0], [])
    for _ in range(chance.choice((1, 1, 2, 3))):
        options = [param for param in params if param.opts[0].startswith("-")]
        if options and chance.random() < 0.6:
            option = chance.choice(options)
            choices = list(getattr(option.type, "choices", ())) or list(USUAL)
            value = chance.choice(choices) if chance.random() < 0.8 else chance.choice(ALL)
            words += [chance.choice(option.opts), *([] if getattr(option, "is_flag", False) else [value])]
        else:
            place = chance.randrange(len(words))
            words[place] = chance.choice(USUAL) if chance.random() < 0.5 else chance.choice(ALL).replace("\n", " ")
    return encoded("\n".join(words))


def edit_file(chance: random.Random, data: bytes) -> bytes:
    """The file of a command, or one of the words before it."""
    first, _, content = data.partition(b"\n")
    if chance.random() < 0.1:
        return edit_command(chance, first.replace(b" ", b"\n")).replace(b"\n", b" ") + b"\n" + content
    suffix = first.partition(b"FILE.")[2].partition(b" ")[0]
    edit = {b"csv": edit_csv, b"toml": edit_toml, b"sqlite": edit_ledger}.get(suffix, edit_json)
    return first + b"\n" + edit(chance, content)


EDITS: dict[str, Callable[[random.Random, bytes], bytes]] = {
    **dict.fromkeys(("torch", "jax", "plain-json", "observation", "cases-json", "cases-jsonl", "cases-program"), edit_json),
    **dict.fromkeys(("eval-json", "gate-json", "ledger-records", "model-config", "reconcile"), edit_json),
    **dict.fromkeys(("ncu", "perf", "likwid", "rocprof", "advisor", "plain-csv", "cases-csv", "eval-csv", "gate-csv"), edit_csv),
    "cases-parquet": edit_parquet,
    "machine": edit_toml,
    "ledger-file": edit_ledger,
    "words": edit_words,
    "command": edit_command,
    "command-file": edit_file,
}  # fmt: skip


def edited(chance: random.Random, target: str, data: bytes) -> bytes:
    """A seed with wrong values; one that cannot be read as what it should be stays as it is."""
    try:
        return EDITS[target](chance, data) if target in EDITS else data
    except Exception:  # of any of the libraries that read or write the formats
        return data
