"""Lines of words for every option of every command: each value alone, then mixtures of several, always the same ones.

A command whose options are not all listed here fails its test, so a new option comes with a value.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from amount import WIDE, some
from ridgeline.app.cli import COMMANDS, main

Words = tuple[str, ...]

# A machine of every kind; some lack formats, levels, links or measured figures.
MACHINES = (
    "h200-sxm",
    "t4",
    "mi300x",
    "tpu-v5e",
    "epyc-9654",
    "apple-m2-max",
    "gaudi3",
    "trainium2",
    "intel-max-1550",
    "grace",
)
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "int4_g128")
DATA, PICTURES = (".json", ".csv", ".md", ".txt"), (".svg", ".png", ".pdf", ".html")
GEMM = ("gemm", "m=64", "n=64", "k=64")
ATTENTION = ("attention", "batch=1", "heads=8", "seq_q=64", "head_dim=64")
H200 = ("--on", "h200-sxm")

# Complete command lines to which options are added; the first takes most of them.
BASES: Mapping[str, Sequence[Words]] = {
    "chart": [("chart", "roofline", *H200), ("chart", "compare", *H200), ("chart",)],
    "compare": [("compare", "h200-sxm", "h100-sxm")],
    "critical-batch": [("critical-batch", "4096", "4096", *H200), ("critical-batch", "64", "64")],
    "eval": [("eval", "cases.csv", *H200)],
    "gate": [("gate", "before.csv", "after.csv")],
    "glossary": [("glossary",), ("glossary", "ridge")],
    "import": [("import", "kernels.csv", *H200), ("import", "counters.csv")],
    "ledger": [("ledger", "report"), ("ledger", "verify"), ("ledger", "show"), ("ledger", "efficiency"), ("ledger", "head")],
    "machines": [("machines", "h200-sxm"), ("machines",)],
    "measure": [("measure", "cpu"), ("measure",)],
    "merge": [("merge", "machine.toml", "machine.toml", "--out", "merged.toml")],
    "model": [("model", "llama-3.2-1b", *H200), ("model", "llama-3.2-1b", *H200, "--train"), ("model", "olmoe-1b-7b", *H200, "--fit"), ("model", "olmoe-1b-7b", *H200, "--tp", "2"), ("model", "list")],
    "ops": [("ops",), ("ops", "gemm")],
    "precisions": [("precisions", *GEMM, *H200)],
    "predict": [("predict", *GEMM, *H200), ("predict", *ATTENTION, *H200), ("predict", *H200)],
    "profile": [("profile", "--", "python", "script.py"), ("profile",)],
    "reconcile": [("reconcile", "observed.csv", "--cases", "cases.csv", *H200), ("reconcile", "observed.csv"), ("reconcile", "observed.csv", "--seal", "SEAL"), ("reconcile", "trace.json", *H200)],
    "run": [("run",), ("run", "--", "python", "script.py")],
    "seal": [("seal", "cases.csv", *H200)],
    "trace": [("trace", "program.py:step", *H200), ("trace", "program.py:step", *H200, "--mode", "eager,graph"), ("trace", "program.py:step", *H200, "--seal")],
    "table": [("table", "common", *H200), ("table",)],
    "whatif": [("whatif", *GEMM, *H200, "--do", "quantize=fp8"), ("whatif", *ATTENTION, *H200, "--do", "batch=8"), ("whatif", *GEMM, *H200), ("whatif",)],
}  # fmt: skip

# Words of the options that take a value; a choice and a flag say their own.
VALUES: Mapping[str, Sequence[Words]] = {
    "--on": [("--on", name) for name in (*MACHINES, "h200", "machine.toml", "here")],
    "--peak": [("--peak", "100 TFLOP/s", "--bandwidth", "2 TB/s"), ("--peak", "5 GFLOP/s")],
    "--bandwidth": [("--bandwidth", "2 TB/s", "--peak", "100 TFLOP/s"), ("--bandwidth", "10 GB/s")],
    "--launch": [("--launch", "8us"), ("--launch", "0 s")],
    "--dtype": [("--dtype", name) for name in DTYPES],
    "--dtypes": [("--dtypes", "fp32,bf16"), ("--dtypes", "fp8")],
    "--weights": [("--weights", "int4_g128"), ("--weights", "fp8")],
    "--out-dtype": [("--out-dtype", "fp32")],
    "--kv": [("--kv", "fp8")],
    "--and": [("--and", "t4", "--and", "mi300x")],
    "--out": [("--out", f"out{suffix}") for suffix in (*PICTURES, *DATA, ".toml", ".jsonl", ".parquet", ".xyz")],
    "--op": [("--op", "gemm m=8 n=64 k=64"), ("--op", "copy n=1e6")],
    "--ridge": [("--ridge", "152"), ("--ridge", "20 FLOP/B")],
    "--backend": [("--backend", "torch"), ("--backend", "vllm-0.24.0")],
    "--baseline": [("--baseline", "before.csv"), ("--baseline", "before.csv", "--baseline", "after.csv")],
    "--min-change": [("--min-change", "0.1")],
    "--p-value": [("--p-value", "0.05")],
    "--as": [("--as", "plain"), ("--as", "ncu"), ("--as", "json")],
    "--expect": [("--expect", "0" * 64)],
    "--ledger": [("--ledger", "sealed.sqlite"), ("--ledger", "other.sqlite")],
    "--against": [("--against", "machine.toml")],
    "--resident": [("--resident", level) for level in ("l1", "l2", "l3", "hbm", "registers")],
    "--efficiency": [("--efficiency", "0.78")],
    "--took": [("--took", "5us"), ("--took", "1 ns")],
    "--cases": [("--cases", "cases.csv"), ("--cases", "cases.jsonl")],
    "--kernel": [("--kernel", "gemm", "--out", "kernel.svg"), ("--kernel", "gemm")],
    "--launches": [("--launches", "3")],
    "--seal": [("--seal", "SEAL", "--ledger", "sealed.sqlite"), ("--seal", "none")],
    "--note": [("--note", "a note")],
    "--steps": [("--steps", "3")],
    "--seconds": [("--seconds", "0.5")],
    "--keep": [("--keep", "trace.json.gz")],
    "--report": [("--report", "report.html")],
    "--do": [("--do", "quantize=weights:int4_g128,batch=8,machine=b200-sxm"), ("--do", "graphs")],
    "--share": [("--share", "0.4")],
    "--mode": [("--mode", "graph"), ("--mode", "eager,fused"), ("--mode", "sideways")],
    "--sweep": [("--sweep", "batch=1..8"), ("--sweep", "batch=8"), ("--sweep", "batch"), ("--sweep", "batch=0.5")],
    "--top": [("--top", "2")],
    "--whatif": [
        ("--whatif", "graph,compile,fp8,attention,machine=b200-sxm"),
        ("--whatif", "batch=2"),
        ("--whatif", "magic"),
    ],
    "--batch": [("--batch", "8")],
    "--prompt": [("--prompt", "100")],
    "--generate": [("--generate", "10")],
    "--tp": [("--tp", "2"), ("--tp", "3")],
    "--pp": [("--pp", "2"), ("--pp", "64")],
    "--dp": [("--dp", "2")],
    "--ep": [("--ep", "2")],
    "--cp": [("--cp", "2")],
    "--shard": [("--shard", "3")],
    "--tokens": [("--tokens", "512")],
    "--micro": [("--micro", "1")],
    "--interleaved": [("--interleaved", "2", "--pp", "2"), ("--interleaved", "2")],
    "--software": [("--software", "gpt-fast"), ("--software", "none")],
    "--curve": [
        ("--curve", "batch=1..8"),
        ("--curve", "devices=1..4"),
        ("--curve", "dp=1..2"),
        ("--curve", "layers=1"),
        ("--curve", "batch"),
    ],
    "--draft": [("--draft", "llama-3.2-1b", "--accepted", "0.5"), ("--draft", "gpt2"), ("--draft", "nobody")],
    "--drafted": [("--drafted", "2", "--draft", "llama-3.2-1b"), ("--drafted", "2")],
    "--accepted": [("--accepted", "0.9", "--draft", "llama-3.2-1b"), ("--accepted", "2")],
    "--slo": [("--slo", "ttft=500ms"), ("--slo", "tpot=30ms", "ttft=1s"), ("--slo", "tpot=30"), ("--slo", "fast")],
    "--devices": [("--devices", "2")],
    "--price": [("--price", "2.5"), ("--price", "h200-sxm=3.5"), ("--price", "free"), ("--price", "t4=1")],
    "--timeline": [("--timeline", "timeline.json"), ("--timeline", "timeline.json.gz"), ("--timeline", "timeline.txt")],
}


def options(command: str) -> dict[str, list[Words]]:
    """The words of each option, by its first long name."""
    found = main.get_command(click.Context(main), command)
    assert found is not None
    words: dict[str, list[Words]] = {}
    for option in found.params:
        if not isinstance(option, click.Option):
            continue
        name = next(each for each in option.opts if each.startswith("--"))
        if option.is_flag:
            words[name] = [(each,) for each in (*option.opts, *option.secondary_opts)]
        elif isinstance(option.type, click.Choice):
            words[name] = [(name, str(choice)) for choice in option.type.choices]
        else:
            words[name] = list(VALUES[name])
    if "--theme" in words:
        words["--theme"] = [(*each, "--out", "themed.svg") for each in words["--theme"][-1:]]
    if command not in ("chart", "predict") and "--out" in words:  # all others draw as these do
        words["--out"] = [each for each in words["--out"] if not each[1].endswith((".png", ".pdf"))]
    return words


def without(base: Words, added: Words) -> Words:
    """The words of a base without the options that are added again."""
    kept: list[str] = []
    place = 0
    while place < len(base):
        if base[place].startswith("--") and base[place] in added and base[place] != "--":
            place += 2
        else:
            kept.append(base[place])
            place += 1
    return tuple(kept)


def joined(base: Words, *added: Words) -> Words:
    """One command line; what comes after `--` stays last."""
    words = tuple(word for each in added for word in each)
    kept = without(base, words)
    end = kept.index("--") if "--" in kept else len(kept)
    return (*kept[:end], *words, *kept[end:])


def singles(command: str) -> Iterator[tuple[str, list[Words], list[Words]]]:
    """By option: its values added to the first base of the command, and the first to the others in turn; in a wide run everything to all.

    Then the values that were left out, for options whose sample leads to no answer.
    """
    first, *others = BASES[command]
    for turn, (name, values) in enumerate(options(command).items()):
        tried = [*values[:1], *some(values[1:], 4)]
        lines = [joined(first, words) for words in tried]
        bases = others if WIDE else others[turn % len(others) :][:1] if others else []
        yield (
            name,
            lines
            + [joined(base, words) for base in bases for words in values[: 2 if WIDE else 1] if not _drawn(words)],
            [
                joined(base, words)
                for base in (first, *others)
                for words in values
                if base is not first or words not in tried
            ],
        )


def _drawn(words: Words) -> bool:
    """Whether a picture is made, which takes as long as a hundred answers."""
    return any(Path(word).suffix in PICTURES for word in words)


def mixtures(command: str, count: int) -> list[Words]:
    """Several options at once, drawn by a fixed seed."""
    draw = random.Random(command)
    listed = options(command)
    lines = []
    for _ in range(count):
        names = draw.sample(sorted(listed), min(len(listed), draw.randint(2, 4)))
        chosen = [draw.choice(listed[name]) for name in names]
        lines.append(joined(draw.choice(BASES[command]), *(words for words in chosen if not _drawn(words))))
    return lines


assert set(BASES) == set(COMMANDS) - {"serve"}  # which does not end; tests/web tries it
