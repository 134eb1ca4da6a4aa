"""The recorded versions as paths under the roof, one picture per format. Needs no GPU. `python draw.py FOLDER`"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

from ridgeline.core.files import write_text
from ridgeline.machines.load import load
from ridgeline.profilers import load as observe
from ridgeline.render.charts.changes import Version, version, versions
from ridgeline.render.draw import files

MACHINE = load("h200-sxm")
ENGINES = {"fp32": "vector.fp32", "bf16": "tensor.bf16"}
SIZES = {"fp32": 4096, "bf16": 8192}


def path(folder: Path, dtype: str) -> list[Version]:
    """The versions of a format in the order they were written, as Nsight Compute counted and timed them."""
    seen = [item for item in observe.load(folder / "kernels.csv") if item.name.startswith(f"{dtype}_")]
    found = [version(item, MACHINE) for item in seen]
    return [Version(item.name.removeprefix(f"{dtype}_"), item.time, item.flops, item.bytes) for item in found]


def main(where: str) -> None:
    folder = Path(where)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["name", "time_us", "flops", "bytes"])
    for dtype, engine in ENGINES.items():
        found = path(folder, dtype)
        title = f"{dtype} GEMM {SIZES[dtype]}^3 on {MACHINE.name}, {len(found)} versions"
        files.save(versions(MACHINE, found, engine=engine, title=title), folder / f"{dtype}.svg", "light")
        table.writerows([f"{dtype}_{item.name}", f"{item.time * 1e6:.3f}", item.flops, item.bytes] for item in found)
    write_text(folder / "versions.csv", text.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
