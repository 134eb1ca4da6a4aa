"""Profiles cut to what ridgeline reads: a trace without Python frames and arrows, a table of the metrics it knows.

python cut.py trace.json.gz FOLDER
python cut.py kernels.csv FOLDER
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from pathlib import Path

from ridgeline.profilers.ncu import IDENTITY
from ridgeline.profilers.ncu.formulas import WANTED

KEPT = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset")

NAMED = ("ID", *IDENTITY)


def trace(text: str) -> str:
    whole = json.loads(text)
    whole["traceEvents"] = [event for event in whole["traceEvents"] if event.get("cat") in KEPT]
    whole.pop("traceName", None)  # where it was written
    return json.dumps(whole, separators=(",", ":"))


def table(text: str) -> str:
    rows = list(csv.reader(line for line in text.splitlines(keepends=True) if line.startswith('"')))
    places = [place for place, name in enumerate(rows[0]) if name in WANTED or name in NAMED or "_Range" in name]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [row[place] for place in places] for row in rows
    )
    return out.getvalue()


def main(file: str, folder: str) -> None:
    source, out = Path(file), Path(folder) / Path(file).name
    if source.suffix == ".gz":
        out.write_bytes(gzip.compress(trace(gzip.decompress(source.read_bytes()).decode()).encode(), mtime=0))
    else:
        out.write_text(table(source.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
