"""How fast the explorer is in a browser: the first view, a dragged slider from input to drawn chart, an upload of 10,000 kernels.

Needs Chromium and Playwright. `python benchmarks/explorer_speed.py --rounds 100` prints milliseconds.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from ridgeline.app.web.answers.pictures import pictured
from ridgeline.render.chart import LOG, Axis, Chart, Line, Point

VIEWS = {
    "one machine, one op": "/explore",
    "four machines, one op": "/explore?machines=a100-sxm-80gb,h100-sxm,h200-sxm,b200-sxm",
}
# when something is there to read or a chart is drawn, by the clock of the page, which starts with the navigation
FIRST = """new MutationObserver(() => {
  if (!window.first && document.querySelector('.questions a, .shown .chart .point')) window.first = performance.now();
}).observe(document, { childList: true, subtree: true });"""
# one step of a slider, timed in the page until the chart that shows it is drawn
STEP = """async (value) => {
  const field = document.querySelector('.slider input[type=text]'), shown = document.querySelector('.shown');
  const drawn = new Promise((done) => shown.addEventListener('shown', done, { once: true }));
  const begun = performance.now();
  field.value = String(value);
  field.dispatchEvent(new Event('input'));
  await drawn;
  await new Promise((done) => requestAnimationFrame(done));
  return performance.now() - begun;
}"""
MANY = """async (chart) => {
  const { draw } = await import('/static/js/draw.js');
  const place = document.createElement('div');
  document.querySelector('main').replaceChildren(place);
  const times = [];
  let begun = performance.now();
  await draw(place, chart);
  times.push(performance.now() - begun);
  const frame = place.querySelector('.chart');
  for (let step = 0; step < 10; step++) {
    begun = performance.now();
    await Plotly.relayout(frame, { 'xaxis.range': [-1 + step / 10, 3 + step / 10] });
    await new Promise((done) => requestAnimationFrame(done));
    times.push(performance.now() - begun);
  }
  return times;
}"""


@contextmanager
def served() -> Iterator[tuple[str, int]]:
    """The explorer as people start it: its address, and the number of its process."""
    command = [sys.executable, "-m", "ridgeline", "serve", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process.stderr.readline().split()[2].rstrip("/"), process.pid
        process.terminate()


def many_points(count: int) -> dict[str, Any]:
    chance = random.Random(1)
    points = tuple(
        Point(10 ** chance.uniform(-1, 3), 10 ** chance.uniform(10, 14), f"kernel {index}" if index < 50 else "", "", "observed", f"kernel {index}")
        for index in range(count)
    )  # fmt: skip
    axes = Axis("arithmetic intensity", "FLOP/B", LOG, (0.05, 2e3)), Axis("performance", "FLOP/s", LOG, (1e9, 2e15))
    roof = Line(((0.05, 5e10), (1e3, 1e15), (2e3, 1e15)), "bandwidth", "roof")
    return pictured(Chart("roofline", f"{count} points", *axes, lines=(roof,), points=points))


OF_SERVER = READ, PLACED = "read and drawn", "another machine"
SPOT = """(place) => {
  const frame = document.querySelector(".results .chart"), { xaxis, yaxis } = frame._fullLayout;
  const point = frame.chart.points.filter((each) => each.role === "observed")[place], box = frame.getBoundingClientRect();
  return [box.x + xaxis._offset + xaxis.d2p(point.x), box.y + yaxis._offset + yaxis.d2p(point.y)];
}"""
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def many_kernels(count: int) -> bytes:
    """A table of distinct kernels all over the plane, of a machine that it does not name."""
    chance = random.Random(1)
    lines = ["name,time_us,flops.tensor.bf16,bytes.hbm"]
    for index in range(count):
        moved, intensity, seconds = (
            10 ** chance.uniform(5, 9),
            10 ** chance.uniform(-1, 3),
            10 ** chance.uniform(-5, -2),
        )
        lines.append(f"kernel_{index},{seconds * 1e6:.3f},{moved * intensity:.6g},{moved:.6g}")
    return "\n".join(lines).encode()


def until(page: Any, condition: str) -> None:
    """The page's policy forbids conditions as texts in it, so they are asked for from here."""
    while not page.evaluate(condition):
        page.wait_for_timeout(10)
    page.evaluate(FRAMES)


def processor_time(pid: int) -> float:
    """Seconds of processor time of a process so far, which other programs on the machine do not lengthen; Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def uploaded(page: Any, server: tuple[str, int], count: int) -> list[tuple[str, float]]:
    """Milliseconds of what people do with a large profile, from the input to the drawn frame."""
    steps: list[tuple[str, float]] = []
    address, pid = server

    def timed(name: str, done: str, act: Any) -> None:
        begun, spent = time.perf_counter(), processor_time(pid)
        act()
        until(page, done)
        steps.append((name, (time.perf_counter() - begun) * 1e3))
        if name in OF_SERVER:
            steps.append((f"{name}, processor time of the server", (processor_time(pid) - spent) * 1e3))

    page.goto(f"{address}/#/profile?machine=h200-sxm")
    page.wait_for_selector(".drop")
    file = {"name": "kernels.csv", "mimeType": "text/csv", "buffer": many_kernels(count)}
    drawn = "!!document.querySelector('.results canvas.dots') && !document.querySelector('.results progress')"
    timed(READ, drawn, lambda: page.set_input_files("#profile-file", file))
    chart = page.locator(".results .chart").first
    for place in (count // 2, count - 1):
        chart.scroll_into_view_if_needed()
        x, y = page.evaluate(SPOT, place)
        timed("hover", "!document.querySelector('.dots-tip').hidden", partial(page.mouse.move, x, y))
        card = "document.querySelectorAll('.gap-card .charts .js-plotly-plot').length === 2"
        page.evaluate("document.querySelectorAll('.gap-card .charts').forEach((each) => each.remove())")
        timed("gap card", card, partial(page.mouse.click, x, y))
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    for step in range(1, 11):
        timed("pan", "true", partial(page.mouse.move, middle[0] + 8 * step, middle[1]))
    page.mouse.up()
    for title in ("Zoom in", "Zoom out"):
        button = chart.locator(f".modebar-btn[data-title='{title}']")
        timed("zoom", "true", button.click)
    timed(PLACED, drawn, lambda: page.select_option(".drop select", "b200-sxm"))
    return steps


def percentiles(times: list[float]) -> str:
    ordered = sorted(times)
    return f"P50 {statistics.median(ordered):.0f} ms, P95 {ordered[int(0.95 * (len(ordered) - 1))]:.0f} ms, max {ordered[-1]:.0f} ms"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--rounds", type=int, default=100)
    rounds = options.parse_args().rounds
    with served() as (address, pid), sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.add_init_script(FIRST)
        page.goto(f"{address}/")
        page.wait_for_selector(".questions a")
        print(f"first view after {page.evaluate('window.first') / 1e3:.2f} s")
        for name, view in VIEWS.items():
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.add_init_script(FIRST)
            page.goto(f"{address}/#{view}")
            page.wait_for_selector(".shown .chart .point")
            first = page.evaluate("window.first")
            times = [page.evaluate(STEP, 1 << (step % 14)) for step in range(rounds)]
            print(f"{name}: first chart after {first / 1e3:.2f} s; slider {percentiles(times)} over {rounds}")
        begun_draw, *moves = page.evaluate(MANY, many_points(10_000))
        print(f"10,000 points: drawn in {begun_draw:.0f} ms; pan {percentiles(moves)}")
        times: dict[str, list[float]] = {}
        for name, taken in uploaded(page, (address, pid), 10_000):
            times.setdefault(name, []).append(taken)
        print(
            "an upload of 10,000 kernels: " + "; ".join(f"{name} {max(taken):.0f} ms" for name, taken in times.items())
        )
        browser.close()


if __name__ == "__main__":
    main()
