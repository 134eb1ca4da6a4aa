"""Draws the pictures of the docs: `python docs/make_pictures.py` (or `make pages`)."""

from __future__ import annotations

from pathlib import Path

import ridgeline as rl
from ridgeline.render.charts import CHARTS
from ridgeline.render.draw.files import save

IMAGES = Path(__file__).with_name("img")
# Which machine each chart is shown on; the A100's L1 and L2 bandwidths are documented, so it carries the hierarchy.
MACHINES = {
    "ceilings": "a100-sxm-80gb",
    "locality": "a100-sxm-80gb",
    "pyramid": "a100-sxm-80gb",
    "precisions": "a100-sxm-80gb",
}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for name, chart in CHARTS.items():
        machine = rl.machine(MACHINES.get(name, "h100-sxm"))
        save(chart(machine), IMAGES / f"{name}.svg")
        print(f"{name} on {machine.name}")
    h200 = rl.machine("h200-sxm")
    sweep = rl.predict(rl.ops.linear([2.0**power for power in range(13)], 4096, 4096), h200)
    save(rl.plot(h200, [sweep]).chart, IMAGES / "linear.svg")


if __name__ == "__main__":
    main()
