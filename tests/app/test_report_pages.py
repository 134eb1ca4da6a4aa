"""Report pages of trace, model and import: the answer, joined dots and rows, what is not counted, the data; hostile names stay text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from commands import run

HOSTILE = """</script><img src=x onerror="alert('1')">"""
ON = ("--on", "h200-sxm")


class Read(HTMLParser):
    """What a browser would make of a page: its elements, headings, keys of rows, and the JSON in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[str] = []
        self.answer: list[str] = []
        self.json: dict[str, Any] = {}
        self.inside: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        if tag not in ("meta", "use", "input", "br"):
            self.inside.append(f"{tag}#{values.get('id') or values.get('class') or ''}")
        if tag in ("h2", "h3", "summary"):
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        if self.inside and self.inside[-1].startswith(f"{tag}#"):
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        place = self.inside[-1] if self.inside else ""
        if place in ("script#data", "script#dots"):
            self.json[place.removeprefix("script#")] = json.loads(data)
        if place.partition("#")[0] in ("h2", "h3", "summary"):
            self.headings[-1] += data
        if place == "p#" and "div#answer" in self.inside:
            self.answer.append(data)

    @property
    def rows(self) -> list[str]:
        return [values["data-key"] or "" for tag, values in self.tags if tag == "tr" and "data-key" in values]

    @property
    def dots(self) -> dict[str, dict[str, Any]]:
        """By the complete key of the row of each."""
        return {dot["key"]: dot for dot in self.json["dots"].values()}


def page(folder: Path, *words: str) -> Read:
    out = folder / "page.html"
    result = run(*words, "--out", str(out))
    assert result.exit_code == 0, result.output
    return Read(out)


def assert_harmless(read: Read) -> None:
    """No name became an element, an attribute or a script."""
    assert not [tag for tag, _ in read.tags if tag in ("img", "iframe", "b", "object", "link")]
    assert not [name for _, values in read.tags for name in values if name.startswith("on")]
    assert sum(tag == "script" for tag, _ in read.tags) == 3  # dots, data, the page's own


# -- programs -----------------------------------------------------------------------------------------------------

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("NAME", torch.nn.Conv2d(64, 64, 3, padding=1))
        self.point = torch.nn.Conv2d(64, 64, 1)

    def forward(self, x):
        return self.point(self._modules["NAME"](x)).relu()

def net(batch=8):
    return Net().bfloat16(), (torch.empty(batch, 64, 56, 56, dtype=torch.bfloat16),)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    name = HOSTILE.replace(".", "").replace('"', '\\"')
    (tmp_path / "program.py").write_text(PROGRAM.replace("NAME", name), encoding="utf-8")
    return tmp_path


def test_the_page_of_a_trace_is_complete(program: Path) -> None:
    target = f"{program / 'program.py'}:net"
    read = page(program, "trace", target, *ON)
    assert read.answer[0].startswith("net on h200-sxm, eager: ")
    assert any(line.startswith("next: ") for line in read.answer)
    assert read.headings[:4] == ["What each change would bring", "Ops", "Modules", "Memory"]
    assert {"Not in the times", "Device time by source line"} <= set(read.headings)
    # convolutions that differ in their kernel only are two ops, with a dot and a row each
    ops = {"conv2d 64→64 56x56 b8 bf16 kernel=3", "conv2d 64→64 56x56 b8 bf16 kernel=1"}
    assert ops <= set(read.dots)
    assert ops <= set(read.rows)
    assert read.json["data"]["totals"]["kernels"]
    assert read.json["data"]["whatif"]
    assert any("onerror" in key for key in read.rows)  # the name of a module
    assert_harmless(read)


def test_a_chart_that_is_asked_for_is_the_page(program: Path) -> None:
    read = page(program, "trace", f"{program / 'program.py'}:net", *ON, "--chart", "icicle")
    assert read.json["data"]["kind"] == "icicle"
    assert [head.partition(" (")[0] for head in read.headings] == ["Data behind the chart"]
    assert_harmless(read)


def test_programs_side_by_side_join_points_with_rows(program: Path) -> None:
    read = page(program, "trace", f"{program / 'program.py'}:net", *ON, "--sweep", "batch=1,8", "--mode", "eager,graph")
    assert len(read.dots) == 4
    assert set(read.dots) <= set(read.rows)
    assert "h200-sxm, graph, batch 8" in read.dots
    assert {head for head in read.headings if head.startswith("Ops: ")} == {f"Ops: {name}" for name in read.dots}


# -- models -------------------------------------------------------------------------------------------------------

CONFIG = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A small model with a hostile name."""
    folder = tmp_path / HOSTILE.replace("/", "")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, "_name_or_path": HOSTILE}), encoding="utf-8")
    return str(folder)


def test_the_page_of_a_model_is_complete(tmp_path: Path, config: str) -> None:
    read = page(tmp_path, "model", config, *ON, "--tp", "2", "--batch", "4", "--price", "2")
    assert read.answer[0].startswith("TTFT ")
    parts = ["Prefill and decode", "What each change would bring", "Batches", "Memory", "Energy", "Communication", "Not in the times"]  # fmt: skip
    assert [head for head in read.headings if head in parts] == parts
    joined = {key for key in read.dots if key.startswith(("decode: ", "prefill: "))}
    assert {"decode: gate and up", "prefill: gate and up"} <= joined <= set(read.rows)
    # an op has a dot at every batch, which is not that of the row
    assert {f"batch {batch}, decode: gate and up" for batch in (1, 8, 64, 512)} <= set(read.dots) - set(read.rows)
    assert {"batch 1", "batch 512"} <= set(read.dots) & set(read.rows)
    assert read.json["data"]["remedies"]
    assert read.json["data"]["cost_per_million"] > 0
    assert "onerror" in read.json["data"]["model"]
    assert_harmless(read)


def test_a_training_step_has_a_page(tmp_path: Path, config: str) -> None:
    read = page(tmp_path, "model", config, *ON, "--train", "--batch", "8", "--dp", "2", "--recompute", "full")
    assert read.answer[0].startswith("step ")
    assert {"Ops of a step", "Memory", "Communication"} <= set(read.headings)
    names = [dot["name"] for dot in read.json["dots"].values()]
    assert {"forward: qkv", "recomputed: qkv", "backward: qkv wgrad"} <= set(names)  # the first two are one row
    assert {"qkv", "qkv wgrad"} <= set(read.dots) & set(read.rows)
    assert_harmless(read)


@pytest.mark.parametrize(
    ("words", "dots"),
    [
        (("--curve", "batch=1..4"), {"h200-sxm: batch 1", "h200-sxm: batch 4"}),
        (("--curve", "tp=1,2"), {"h200-sxm", "2 x h200-sxm (tp=2)"}),
        (("--on", "h200-sxm,b200-sxm"), {"h200-sxm: batch 1", "b200-sxm: batch 512"}),
        (("--fit", "--devices", "2"), {"h200-sxm, batch 512", "2 x h200-sxm (tp=2), batch 512"}),
        (("--draft", "llama-3.2-1b"), {"batch 1", "batch 256"}),
    ],
)
def test_studies_of_a_model_have_pages(tmp_path: Path, words: tuple[str, ...], dots: set[str]) -> None:
    on = () if "--on" in words else ON
    read = page(tmp_path, "model", "llama-3.2-1b", *on, *words)
    assert read.answer
    assert dots <= set(read.dots) & set(read.rows)
    assert "Not in the times" in read.headings
    assert read.json["data"]


def test_training_on_several_machines_has_a_page(tmp_path: Path) -> None:
    words = ("--on", "h200-sxm,t4", "--train", "--batch", "8", "--tokens", "512", "--dtype", "fp16")
    read = page(tmp_path, "model", "llama-3.2-1b", *words)
    assert read.answer == [read.answer[0], "does not fit in memory: t4"]
    assert "h200-sxm" in read.answer[0]
