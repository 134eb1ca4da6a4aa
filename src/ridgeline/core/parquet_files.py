"""Tables in parquet files, of which little may unpack to much: what a file says of itself is checked before it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .columns import ABSENT, Columns, listed, refuse_repeated, tidied
from .errors import InputError, first_line
from .intake.door import Door
from .intake.limits import limit, over, refuse_over
from .intake.source import FREELY
from .intake.text import clean

BATCH = 4096  # rows that are decoded at a time
# in this thread alone: a fault that a broken file causes in a thread of the library's own ends the process
READING = {"memory_map": False, "pre_buffer": False}
MAX_INTEGER = 2**63 - 1  # that a column of whole numbers holds


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError("parquet files need pyarrow; install ridgeline[data], or use .csv or .jsonl") from None
    return parquet


@contextmanager
def _one_error(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{path} needs more memory than there is; give a smaller part of it") from error
    except OSError as error:
        raise InputError(f"cannot read the cases {path}: {error.strerror or first_line(error)}") from error
    except Exception as error:  # pyarrow has an exception family of its own
        raise InputError(f"{path} is not a parquet file: {clean(first_line(error))}") from error


def read_parquet(path: Path) -> Columns:
    """The columns of a file, batch by batch; a text that many cells share is decoded once."""
    parquet = _pyarrow()
    door = Door(str(path))
    with _one_error(path), parquet.ParquetFile(path, **READING) as file:
        names = list(file.schema_arrow.names)
        _refuse_large(file.metadata, len(names), path)
        refuse_repeated(names, str(path))
        texts = [field.name for field in file.schema_arrow if str(field.type) in ("string", "large_string")]
    with _one_error(path), parquet.ParquetFile(path, read_dictionary=texts, **READING) as file:
        cells: dict[str, list[Any]] = {name: [] for name in names}
        count = size = 0
        for batch in file.iter_batches(BATCH, use_threads=False):
            count, size = count + batch.num_rows, size + batch.nbytes
            _refuse_unpacked(size, path)  # whatever the file says of itself
            for name, column in zip(names, batch.columns, strict=True):
                cells[name].extend(_listed(column))
    tidy = {clean(name): tidied(column, name, door) for name, column in cells.items()}
    door.close()
    return Columns(tidy, count)


def _refuse_large(metadata: Any, width: int, path: Path) -> None:
    """InputError where the file says that it holds more than is accepted.

    Only groups of rows are asked: the library ends the process where the data of a single column are broken.
    """
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    refuse_over("rows", metadata.num_rows, f"{path} with its {metadata.num_rows:,} rows")
    cells = metadata.num_rows * width
    refuse_over("cells", cells, f"{path} with its {cells:,} cells")
    _refuse_unpacked(sum(group.total_byte_size for group in groups), path)


def _refuse_unpacked(size: float, path: Path) -> None:
    refuse_over("document", size, f"{path} unpacked")
    if size > max(FREELY, limit("unpacking") * path.stat().st_size):
        raise over("unpacking", f"what {path} unpacks to")


def _listed(column: Any) -> list[Any]:
    if not hasattr(column, "dictionary"):
        values: list[Any] = column.to_pylist()
        return values
    texts = [text if text is None else clean(text) for text in column.dictionary.to_pylist()]
    return [None if place is None else texts[place] for place in column.indices.to_pylist()]


def write_parquet(blocks: Iterable[Columns], order: Sequence[str], draft: Path) -> None:
    parquet = _pyarrow()
    import pyarrow

    cells: dict[str, list[Any]] = {name: [] for name in order}
    for block in blocks:
        for name, column in cells.items():
            column.extend(listed(block.cells[name]) if name in block.cells else [None] * len(block))
    parquet.write_table(pyarrow.table({name: pyarrow.array(_of_one_kind(cells.pop(name))) for name in order}), draft)


def _of_one_kind(column: list[Any]) -> list[Any]:
    """Cells that one column of parquet holds: all texts where one is a text, all floats where one is a float."""
    column = [None if cell is ABSENT else cell for cell in column]
    kinds = set(map(type, column)) - {type(None)}
    large = int in kinds and any(isinstance(cell, int) and abs(cell) > MAX_INTEGER for cell in column)
    if kinds == {int, float} and not large:
        return [None if cell is None else float(cell) for cell in column]
    if large or len(kinds) > 1 or kinds & {list, dict}:
        return [cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in column]
    return column
