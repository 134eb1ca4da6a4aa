"""The programs of `examples/programs` trace: each target, without a GPU and without memory for its tensors."""

from __future__ import annotations

import ast
import re
import resource
from pathlib import Path
from typing import Any

import pytest
from traced import gpu_state

import ridgeline as rl
from ridgeline.core.timeline import BACKWARD, FORWARD, OPTIMIZER

torch: Any = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.needs_torch
FOLDER = Path(__file__).parents[2] / "examples" / "programs"
# Targets with the TFLOPs that they have at least and at most, from published counts of multiply-adds.
TARGETS = {
    "mlp.py:forward": (0.036, 0.037),
    "mlp.py:training": (0.100, 0.110),
    "resnet50.py:inference": (0.52, 0.53),
    "resnet50.py:training": (1.55, 1.60),
    "vit.py:inference": (2.2, 2.3),
    "vit.py:large": (7.8, 8.0),
    "gpt2.py:prefill": (2.1, 2.3),
    "gpt2.py:training": (6.5, 6.9),
    "bert.py:inference": (3.0, 3.2),
    "llama_block.py:block": (1.9, 2.0),
    "mixtral_block.py:block": (3.3, 3.5),
    "unet.py:denoise": (0.19, 0.20),
    "train_amp.py:step": (4.3, 4.6),
}


@pytest.mark.parametrize("target", TARGETS)
def test_an_example_traces(target: str) -> None:
    before = gpu_state()
    trace = rl.trace(str(FOLDER / target))
    least, largest = TARGETS[target]
    assert least <= trace.flops / 1e12 <= largest
    assert not trace.uncounted
    if "train" in target:
        assert {FORWARD, BACKWARD, OPTIMIZER} <= {op.site.phase for op in trace.ops}
    assert gpu_state() == before


def test_every_program_is_traced_and_described() -> None:
    described = (FOLDER / "README.md").read_text(encoding="utf-8")
    for path in FOLDER.glob("*.py"):
        if path.name.startswith("jax"):
            continue
        functions = {
            node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)
        }
        targets = {target.partition(":")[2] for target in TARGETS if target.startswith(f"{path.name}:")}
        assert targets
        assert targets <= functions
    listed = set(re.findall(r"`(\w+\.py:\w+)`", described))
    assert set(TARGETS) <= listed


def test_a_program_larger_than_this_machine_takes_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.device("meta"):
        model = torch.nn.Linear(1 << 20, 1 << 20)  # 4 TB in fp32
    trace = rl.trace(model, torch.empty(8, 1 << 20, device="meta"))
    assert trace.flops >= 2 * 8 * 2**40
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 1e9
