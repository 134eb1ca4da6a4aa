"""`ridgeline trace`: a program of the user's own file, predicted; what is wrong with it said with its line."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest
from commands import answer, run

pytest.importorskip("torch")

PROGRAM = '''
import torch
from torch import nn

WIDTH = 512

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return torch.relu(self.fc(x))

def net(batch=64):
    model = nn.Sequential(Block(), Block()).bfloat16()
    return model, (torch.randn(batch, WIDTH, dtype=torch.bfloat16),)

def train():
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters())
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    return step, (torch.randn(64, WIDTH),)

def large():
    return nn.Linear(1 << 20, 1 << 20, bias=False), (torch.randn(1, 1 << 20),)  # 4 TB of weights

def decides():
    def step(x):
        if x.sum() > 0:
            return x
        return -x
    return step, (torch.randn(4),)

def mismatched():
    return Block(), (torch.randn(4, 9),)

def fails():
    raise RuntimeError("no such checkpoint")

def wants(batch):
    return net(batch)

def nothing():
    return None

answer = 42
'''  # fmt: skip
ON = ("--on", "h200-sxm")
RAISES = '    raise RuntimeError("no such checkpoint")'


def line(text: str) -> str:
    """The place of a line of the program."""
    return f"program.py:{PROGRAM.strip().splitlines().index(text) + 1}"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.lstrip("\n"), encoding="utf-8")
    return path


def test_the_document_has_the_fields_of_the_design(program: Path) -> None:
    made = answer("trace", "program.py:net", *ON)
    totals = {"flops", "bytes", "floor_us", "time_us", "host_us", "wall_us", "kernels", "peak_memory"}
    assert totals <= set(made["totals"])
    assert made["totals"]["flops"] == 2 * (2 * 64 * 512 * 512 + 64 * 512)
    assert made["totals"]["kernels"] == 4
    assert {"name", "module", "op", "count", "flops", "bytes", "bound", "floor_us", "time_us"} <= set(made["ops"][0])
    assert [row["module"] for row in made["ops"]] == ["0.fc", "0", "1.fc", "1"]
    assert made["ops"][1]["source"] == "program.py:12"
    assert made["uncounted"] == []


def test_the_terminal_answers_first_and_lists_the_parts(program: Path) -> None:
    result = run("trace", "program.py:net", *ON, "--backward", "--by", "module")
    first, *others = result.stdout.splitlines()
    assert first.startswith("net on h200-sxm, eager: ")
    assert "host-bound" in first
    assert any(line.startswith("    fc (Linear) x2") for line in others)
    verbose = run("trace", "program.py:net", *ON, "-v").stdout
    assert "Device time by source line" in verbose
    assert "program.py:12" in verbose


def test_the_phases_of_a_training_step(program: Path) -> None:
    made = answer("trace", "program.py:train", *ON, "--by", "phase")
    assert {part["name"] for part in made["parts"]} == {"forward", "backward", "optimizer"}
    assert made["memory"]["state"] == pytest.approx(2 * 4 * (512 * 512 + 512), rel=0.01)  # two moments in fp32


def test_machines_modes_formats_and_sizes_side_by_side(program: Path) -> None:
    made = answer(
        "trace", "program.py:net", "--on", "h200-sxm,b200-sxm", "--mode", "eager,graph", "--sweep", "batch=1..4"
    )
    settings = [case["setting"] for case in made["cases"]]
    assert len(settings) == 2 * 2 * 3
    assert settings[-1] == {"machine": "b200-sxm", "mode": "graph", "batch": 4}
    assert made["cases"][-1]["totals"]["flops"] == 4 * made["cases"][0]["totals"]["flops"]
    again = answer("trace", "program.py:net", "--on", "h200-sxm", "--on", "b200-sxm", "--dtype", "fp32,bf16")
    fp32, *_ = (case for case in again["cases"] if case["setting"]["dtype"] == "fp32")
    bf16, *_ = (case for case in again["cases"] if case["setting"]["dtype"] == "bf16")
    assert fp32["totals"]["bytes"] == 2 * bf16["totals"]["bytes"]
    assert "fastest is" in run("trace", "program.py:net", *ON, "--mode", "eager,graph").stdout.splitlines()[0]


def test_changes_of_the_entire_program(program: Path) -> None:
    made = answer("trace", "program.py:net", *ON, "--whatif", "graph,attention,batch=256,machine=b200-sxm")
    by_name = {row["name"]: row for row in made["whatif"]}
    assert set(by_name) == {"graph", "attention", "batch x4", "b200-sxm"}
    assert by_name["graph"]["gain_us"] == pytest.approx(made["totals"]["wall_us"] - by_name["graph"]["wall_us"])
    assert "no attention" in by_name["attention"]["reason"]
    assert "not possible" in run("trace", "program.py:net", *ON, "--whatif", "attention").stdout
    assert "next: " in run("trace", "program.py:net", *ON).stdout
    assert "value of batch now is not known" in run("trace", "program.py:train", *ON, "--whatif", "batch=2").stderr


def test_a_program_of_terabytes_is_traced_without_them(program: Path) -> None:
    result = run("trace", "program.py:large", *ON)
    assert result.exit_code == 0
    assert "does not fit: needs 4.4 TB" in result.stdout


def test_files(program: Path) -> None:
    assert run("trace", "program.py:net", *ON, "--out", "ops.csv", "--timeline", "step.json.gz").exit_code == 0
    rows = list(csv.DictReader(Path("ops.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["op"] for row in rows] == ["aten::mm", "aten::relu"] * 2
    events = json.loads(gzip.decompress(Path("step.json.gz").read_bytes()))["traceEvents"]
    assert sum(event["ph"] == "X" and event["pid"] == 2 for event in events) == 4
    assert run("trace", "program.py:net", *ON, "--chart", "icicle", "--out", "net.svg").exit_code == 0
    assert "Block" in Path("net.svg").read_text(encoding="utf-8")
    assert run("trace", "program.py:net", *ON, "--out", "net.html").exit_code == 0
    assert "Memory at its peak" in Path("net.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("missing.py:net",), "no file 'missing.py'"),
        (("program.py",), "file.py:name"),
        (("program.py:absent",), "absent"),
        (("program.py:answer",), "is not a function"),
        (("program.py:wants",), "takes arguments (batch)"),
        (("program.py:nothing",), "returned nothing"),
        (
            ("program.py:fails",),
            line(RAISES) + ": RuntimeError: no such checkpoint",
        ),
        (("program.py:decides",), line("        if x.sum() > 0:")),
        (("program.py:mismatched",), line("        return torch.relu(self.fc(x))")),
        (("program.py:train", "--sweep", "batch=1..8"), "has no parameter 'batch': train takes no arguments"),
        (("program.py:train", "--dtype", "bf16"), "only a module can be cast"),
        (("program.py:net", "--dtype", "fp8"), "can be cast to fp64, fp32, bf16, fp16"),
        (("program.py:net", "--mode", "sideways"), "sideways"),
        (("program.py:net", "--mode", "eager,graph", "--chart", "icicle"), "it is about one"),
        (("program.py:net", "--mode", "eager,graph", "--on", "b200-sxm", "--chart", "roofline"), "about one machine"),
    ],
)
def test_what_is_wrong_is_one_message(program: Path, words: tuple[str, ...], says: str) -> None:
    result = run("trace", *words, *ON)
    assert result.exit_code == 2
    assert not result.stdout
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_that_raises_is_named_with_its_line(program: Path) -> None:
    Path("broken.py").write_text("import torch\n\nraise OSError('no data')\n", encoding="utf-8")
    assert "broken.py:3: OSError: no data" in run("trace", "broken.py:net", *ON).stderr
    Path("syntax.py").write_text("import torch\ndef net(:\n", encoding="utf-8")
    assert "syntax.py:2" in run("trace", "syntax.py:net", *ON).stderr
