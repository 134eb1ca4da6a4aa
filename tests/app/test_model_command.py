"""`ridgeline model`: the answer first, curves, layouts, training, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ridgeline.app.cli import main

SMALL = ("model", "llama-3.2-1b", "--on", "h200-sxm")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_the_first_line_answers() -> None:
    result = run(*SMALL, "--batch", "8")
    assert result.exit_code == 0, result.output
    first = result.output.splitlines()[0]
    assert first.startswith("TTFT ")
    assert all(word in first for word in ("TPOT", "tok/s", "of memory", "decode"))
    assert "prefill" in result.output
    assert len(result.output.splitlines()) < 25


def test_json_has_the_documented_fields() -> None:
    document = json.loads(run(*SMALL, "--json").stdout)
    assert {"params", "memory", "prefill", "decode", "ttft_ms", "tpot_ms", "tokens_per_s", "layout"} <= set(document)
    assert {"weights", "kv", "activations", "total"} <= set(document["memory"])
    assert {"flops", "bytes", "bound", "floor_ms", "time_ms"} <= set(document["decode"])
    assert document["params"] == 1235814400


def test_curves_charts_and_lists_are_shown(tmp_path: Path) -> None:
    assert "TPOT" in run(*SMALL, "--curve", "batch=1..8").stdout
    assert "llama-3-70b" in run("model", "list").stdout
    for words in (("--curve", "batch=1..64"), ("--chart", "roofline"), ("--chart", "memory")):
        out = tmp_path / f"{words[1].partition('=')[0]}.svg"
        assert run(*SMALL, *words, "--out", str(out)).exit_code == 0
        assert "<svg" in out.read_text(encoding="utf-8")[:1000]


def test_service_levels_choose_a_layout_and_its_price() -> None:
    result = run(
        "model", "llama-3-8b", "--on", "h100-sxm,h200-sxm", "--slo", "ttft=500ms", "tpot=20ms", "--price", "2.5", "--devices", "2"
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "per million tokens" in result.output.splitlines()[0]
    rows = json.loads(run("model", "llama-3-8b", "--on", "h100-sxm", "--fit", "--json").stdout)
    assert rows[0]["reason"] == ""
    assert "no layout meets this" in run("model", "llama-3-8b", "--on", "h100-sxm", "--slo", "tpot=1us").stdout


def test_a_training_step_says_time_rate_and_mfu() -> None:
    result = run(*SMALL, "--train", "--batch", "16", "--tokens", "2048", "--dp", "4", "--shard", "3")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("step ")
    assert "MFU" in result.output.splitlines()[0]
    document = json.loads(run(*SMALL, "--train", "--batch", "8", "--json").stdout)
    assert document["milliseconds"]["best"] <= document["milliseconds"]["time"] <= document["milliseconds"]["worst"]


def test_scaling_drafts_and_further_charts_are_shown(tmp_path: Path) -> None:
    assert "efficiency" in run(*SMALL, "--curve", "devices=1..4").stdout
    training = (*SMALL, "--train", "--batch", "16", "--tokens", "512")
    assert "efficiency" in run(*training, "--curve", "dp=1..4").stdout
    assert "gradient exchange hidden" in run(*training, "--dp", "4").stdout
    assert "replica_limit" in json.loads(run(*training, "--dp", "4", "--json").stdout)
    drafted = ("model", "llama-3-8b", "--on", "h200-sxm", "--draft", "llama-3.2-1b")
    assert run(*drafted).stdout.startswith("TPOT ")
    document = json.loads(run(*drafted, "--drafted", "2", "--accepted", "0.5", "--json").stdout)
    assert document["tokens"] == 1.75
    assert document["batches"]["speedup"][0] == document["speedup"]
    for words in (("--chart", "batches"), ("--chart", "energy"), ("--chart", "communication", "--tp", "2")):
        out = tmp_path / f"{words[1]}.svg"
        assert run(*SMALL, *words, "--out", str(out)).exit_code == 0
        assert "<svg" in out.read_text(encoding="utf-8")[:1000]
    assert "NVLink" in run(*training, "--dp", "4", "--chart", "communication").stdout


def test_a_config_file_is_read(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    sizes = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
    }
    config.write_text(json.dumps(sizes), encoding="utf-8")
    assert run("model", str(config), "--on", "h200-sxm").exit_code == 0
    config.write_text("{", encoding="utf-8")
    assert run("model", str(config), "--on", "h200-sxm").exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model", "llama-3-70x", "--on", "h200-sxm"), "did you mean"),
        ((*SMALL, "--tp", "3"), "tp can be"),
        ((*SMALL, "--slo", "fast"), "is not a limit"),
        ((*SMALL, "--slo", "tpot=30"), "30 what"),
        ((*SMALL, "--price", "free"), "--price"),
        ((*SMALL, "--price", "t4=1"), "not among"),
        ((*SMALL, "--curve", "batch"), "NAME=VALUES"),
        ((*SMALL, "--tokens", "64"), "without --train"),
        ((*SMALL, "--devices", "4"), "without --slo"),
        ((*SMALL, "--chart", "energy", "--json"), "--chart has no effect on data"),
        ((*SMALL, "--drafted", "4"), "without --draft"),
        ((*SMALL, "--draft", "gpt2"), "vocabulary"),
        ((*SMALL, "--draft", SMALL[1], "--curve", "batch=1..2"), "--curve"),
        ((*SMALL, "--chart", "communication"), "sends nothing"),
        ((*SMALL, "--curve", "devices=3"), "tp can be"),
        ((*SMALL, "--train", "--chart", "energy"), "about serving"),
        ((*SMALL, "--train", "--curve", "batch=1..2"), "degree of a scaling curve"),
        (("model", "bert-base", "--on", "h200-sxm"), "encoder"),
        (("model", "list", "llama"), "takes no words"),
        ((*SMALL, "--slo", "ttft=1s", "--batch", "64"), "which choose the batch"),
        ((*SMALL, "--fit", "--batch", "1"), "which choose the batch"),
        ((*SMALL, "--train", "--prompt", "128"), "--tokens is the length"),
        ((*SMALL, "--train", "--generate", "16"), "--tokens is the length"),
        ((*SMALL, "--train", "--kv", "fp8"), "--kv has no effect"),
        ((*SMALL, "--train", "--price", "2"), "--price has no effect"),
        ((*SMALL, "--train", "--weights", "int4"), "not trained in int4"),
        ((*SMALL, "--train", "--interleaved", "2"), "with pp=1"),
        ((*SMALL, "--train", "--pp", "4", "--batch", "8", "--interleaved", "5"), "interleaved can be at most 4"),
        ((*SMALL, "--train", "--batch", "7", "--micro", "2"), "dp=1 x micro=2; multiples of 2"),
        ((*SMALL, "--shard", "3"), "training"),
        ((*SMALL, "--pp", "17"), "at most 16"),
        ((*SMALL, "--ep", "2"), "ep=2"),
        (("model", "mixtral-8x7b", "--on", "h100-sxm", "--ep", "16", "--dp", "16"), "ep can be 1, 2, 4, 8"),
        ((*SMALL, "--curve", "context=1k..8k"), "batch, cp, devices, ep, generate, pp, prompt, tp"),
        ((*SMALL, "--curve", "batch=8..1"), "upwards"),
        ((*SMALL, "--slo", "e2e=2s"), "is not a limit"),
        ((*SMALL, "--slo", "ttft=-1ms"), "above zero"),
        ((*SMALL, "--weights", "int3"), "unknown dtype"),
        ((*SMALL, "--dtype", "int4"), "does no int4 arithmetic"),
        ((*SMALL, "--dtype", "fp8", "--weights", "bf16"), "at most 8 bits"),
        ((*SMALL, "--software", "other"), "sglang, tensorrt-llm, vllm"),
        ((*SMALL, "--draft", "nowhere"), "unknown model"),
        ((*SMALL, "--out", "chart.xyz"), "cannot draw"),
        ((*SMALL, "--out", "nowhere/chart.svg"), "does not exist"),
        (("model", "./nowhere/config.json", "--on", "h200-sxm"), "cannot read"),
        (("model", "llama-3.2-1b", "--on", "apple-m2-max"), "does no bf16 arithmetic"),
        (("model", "llama-3.2-1b", "--on", "apple-m3-max", "--dtype", "fp16", "--tp", "2"), "no link"),
        (("model", "llama-3.2-1b", "--on", "t4", "--weights", "int4_g128"), "does no bf16 arithmetic"),
        (("model", "t5-base", "--on", "h200-sxm"), "encoder-decoder"),
        ((*SMALL, "--train", "--batch", "3", "--dp", "2"), "does not divide"),
    ],
)
def test_bad_input_is_one_message(words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--batch", "0"), ("--batch", "-4"), ("--batch", "1.5"), ("--prompt", "-1"), ("--generate", "0"), ("--chart", "pie"),
        ("--draft", "gpt2", "--accepted", "1.2"), ("--draft", "gpt2", "--drafted", "0"), ("--slo",), ("--context", "-5"),
    ],
)  # fmt: skip
def test_bad_values_of_options_are_refused_by_name(words: tuple[str, ...]) -> None:
    result = run(*SMALL, *words)
    assert result.exit_code == 2
    assert words[-2 if len(words) > 1 else 0] in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--on", "mi300x", "--tp", "8"), "TTFT "),
        (("--on", "tpu-v5p", "--tp", "8"), "TTFT "),
        (("--on", "epyc-9654"), "TTFT "),
        (("--on", "apple-m2-max", "--dtype", "fp16", "--weights", "int4_g32"), "TTFT "),
        (("--on", "epyc-9654", "--fit"), "1 x epyc-9654"),
        (("--on", "t4", "--fit"), "no layout meets this"),
        (("--on", "h200-sxm", "--slo", "tpot=10ms"), " x h200-sxm"),
        (("--on", "h200-sxm", "--curve", "prompt=128..8192"), "llama-3.2-1b on h200-sxm"),
        (("--on", "h200-sxm", "--draft", "llama-3-8b"), "TPOT "),
    ],
)
def test_odd_machines_and_single_bounds_have_an_answer(words: tuple[str, ...], answer: str) -> None:
    result = run("model", "llama-3.2-1b", *words)
    assert result.exit_code == 0, result.output
    assert answer in result.output.splitlines()[0]


def test_mfu_is_of_the_format_of_the_products_and_long_sequences_are_said() -> None:
    narrow = run(*SMALL, "--train", "--dtype", "fp8", "--batch", "8", "--dp", "8", "--shard", "3", "--json")
    assert 0 < json.loads(narrow.stdout)["mfu"] < 1
    assert (
        "longer than the context of the model, 512" in run("model", "bert-base", "--on", "h200-sxm", "--train").stdout
    )


def test_a_missing_size_is_one_mistake(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9}), encoding="utf-8")  # fmt: skip
    result = run("model", str(config), "--on", "h200-sxm")
    assert result.exit_code == 2
    assert "1 mistake found" in result.stderr


def test_the_next_change_says_what_it_speeds_up_and_that_it_fits() -> None:
    """`2.16x faster per request` was the ratio of times per token; a request of one sequence at a time gained 2.05x."""
    said = run("model", "llama-3-8b", "--on", "rtx-4090").stdout
    gains = re.search(r"^next: fp8_e4m3 weights: ([\d.]+)x faster per token, ([\d.]+)x tok/s per device$", said, re.M)
    assert gains is not None
    before, after = (
        json.loads(run("model", "llama-3-8b", "--on", "rtx-4090", *words, "--json").stdout)
        for words in ((), ("--weights", "fp8_e4m3"))
    )
    assert float(gains[1]) == pytest.approx(before["tpot_ms"] / after["tpot_ms"], abs=0.006)
    assert "next: int4_g128 weights: fits, " in run("model", "llama-3-70b", "--on", "a100-sxm-80gb").stdout
    nothing = "next: --fit lists the layouts that fit; none of the usual changes does by itself"
    assert nothing in run("model", "llama-3-70b", "--on", "rtx-4090").stdout
