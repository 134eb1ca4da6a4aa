"""Models predicted against published figures: decode, prefill, serving, training, and floors that nobody may beat.

    python benchmarks/models/published.py PUBLISHED.csv [--rows] [--leave-one-out]

The table is third-party (columns: source, model, gpu, n_gpu, dtype_weights, batch, prompt_len, gen_len, phase, metric, value, unit,
note) and is not part of this project; each row is cited by its source. Rows whose GPU or model is not known here, or whose batch is
not stated, are counted and left out. `--leave-one-out` fits each constant that was fitted to these rows again, without the rows of
one engine or publisher at a time, and prints the error on those.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.core.errors import RidgelineError
from ridgeline.core.machine import Machine
from ridgeline.machines.load import load as machine_named
from ridgeline.prediction.models.result import Load, ModelPrediction, predict_model
from ridgeline.prediction.models.training import Job, TrainingPrediction, predict_training
from ridgeline.programs.models.layout import Layout
from ridgeline.programs.models.load import architecture
from ridgeline.programs.models.phase import Formats

MACHINES = {
    "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "A100-80GB SXM (330W cap)": "a100-sxm-80gb", "A100-SXM-80GB": "a100-sxm-80gb", "A100": "a100-sxm-80gb",
    "H100-80GB": "h100-sxm", "H100-SXM": "h100-sxm", "H200": "h200-sxm", "L40S": "l40s", "MI250X (one GCD)": "mi250x-gcd", "4090 24GB": "rtx-4090",
    "3090 24GB": "rtx-3090", "A40 48GB": "a40", "A100 PCIe 80GB": "a100-pcie-80gb", "L40S 48GB": "l40s", "RTX 6000 Ada 48GB": "rtx-6000-ada",
    "H100 PCIe 80GB": "h100-pcie", "A100 SXM 80GB": "a100-sxm-80gb", "M2 Ultra 76-Core GPU 192GB": "apple-m2-ultra", "M1 Max 32-Core GPU 64GB": "apple-m1-max",
    "M3 Max 40-Core GPU 64GB": "apple-m3-max", "DGX-GB300": "gb300", "DGX-GB200": "gb200", "DGX-B200": "b200-sxm", "DGX-H100": "h100-sxm",
    "H100 96GB HBM2e 2.4TB/s 500W": "h100-sxm",
}  # fmt: skip
Q4_K_M = "int4_g32"  # 4.5 bits an element with its scales; llama.cpp's mix of formats has about 4.8
FORMATS = {
    "bf16": "bf16", "fp16": "fp16", "f16": "fp16", "fp8": "fp8_e4m3", "unstated": "bf16", "int8-wo": "int8", "int4-g32-wo": "int4_g32", "int4-wo": "int4_g128",
    "q4_k_m": Q4_K_M, "fp8-cs": "fp8_e4m3", "fp8-mx": "mxfp8", "fp4": "mxfp4",
}  # fmt: skip
SERVED = ("aiconfigurator", "NVIDIA NIM", "vllm")  # whose figures are of loaded servers
ENGINES = ("trtllm", "vllm", "sglang")
LLAMA_CPP = ("Xiongjie", "ggml", "geerlingguy")
IN_16_BIT = ("int8", "int4_g32", "int4_g128", "mxfp4")  # weights that are widened: products in 16 bit
FLASH_ATTENTION_2 = (
    0.35  # of the peak of an H100, which its kernels reach by the abstract of FlashAttention-3 (arXiv 2407.08608)
)
WIDE_CARD, WIDE_LIMIT = 2.4e12, 500.0  # of a variant of the H100: bandwidth and power limit


@dataclass(frozen=True)
class Row:
    """A published figure and ours, both as times or both as rates; `floor` in the same unit, the best that is possible."""

    kind: str
    name: str
    measured: float
    predicted: float
    floor: float
    rate: bool
    source: str
    group: str = ""  # the engine and who published, or the model that was trained
    made: ModelPrediction | TrainingPrediction | None = None

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def beaten(self) -> bool:
        """Whether the published figure is better than the roofline allows."""
        return self.measured > self.floor * 1.001 if self.rate else self.measured < self.floor * 0.999


def machine_of(row: dict[str, str]) -> Machine:
    machine = machine_named(MACHINES[row["gpu"]])
    if "500W" in row["gpu"]:
        limit = replace(machine.tdp, stated=WIDE_LIMIT)
        return replace(machine.with_figures(bandwidth=WIDE_CARD), tdp=limit)
    return machine


def engine_of(row: dict[str, str]) -> str:
    """Who published a figure, and the engine it is of where one table has several."""
    engine = next((name for name in ENGINES if row["note"].startswith(name)), "")
    return " ".join([row["source"].split()[0], engine]).strip() if not row["source"].startswith("NVIDIA NIM") else "NIM"


def degree(note: str, name: str) -> int:
    found = re.search(rf"(?<![a-z_]){name} ?(\d+)", note, re.IGNORECASE)
    return int(found.group(1)) if found else 1


def formats_of(row: dict[str, str]) -> Formats:
    weights = FORMATS[row["dtype_weights"]]
    if "FP8" in row["model"]:
        weights = "fp8_e4m3"
    arithmetic = {"fp16": "fp16"}.get(weights, "bf16") if weights in (*IN_16_BIT, "bf16", "fp16") else weights
    # TensorRT-LLM quantizes the cache with the weights
    narrow = ("trtllm" in row["note"].lower() or row["source"].startswith("TensorRT")) and weights == "fp8_e4m3"
    if row["source"].startswith(LLAMA_CPP):
        arithmetic = "fp16"
    return Formats(weights, arithmetic, "fp8_e4m3" if narrow else ("fp16" if arithmetic == "fp16" else "bf16"))


def served(row: dict[str, str]) -> ModelPrediction:
    note, count = row["note"], int(row["n_gpu"])
    tp = degree(note, "tp") if re.search(r"tp ?\d", note, re.IGNORECASE) else count
    ep = degree(note, "moe_ep")
    layout = Layout(tp=tp, ep=ep if ep <= tp else 1)
    if row["source"].startswith(LLAMA_CPP):
        layout = Layout(pp=count)  # layer by layer over the devices
    if ep > tp:  # attention on every device, experts over all of them
        layout = Layout(tp=tp, dp=ep // tp, ep=ep)
    static = "sglang 0.5.1" in note or "static batch" in note
    batch = max(float(row["batch"]) / layout.dp, 1.0)
    prompt, generate = max(float(row["prompt_len"] or 512), 1.0), max(float(row["gen_len"] or 128), 1.0)
    software = "gpt-fast" if row["source"].startswith(("gpt-fast", *LLAMA_CPP)) else None
    if "trtllm" in note or row["source"].startswith("TensorRT"):
        software = "tensorrt-llm"
    load = Load(batch, prompt, generate, static)
    return predict_model(architecture(row["model"]), machine_of(row), load, formats_of(row), layout, software)


def inference(row: dict[str, str]) -> Iterator[Row]:
    kind, metric, value = row["phase"], row["metric"], float(row["value"])
    made = served(row)
    name = f"{row['model']} {row['gpu']} x{row['n_gpu']} {row['dtype_weights']} batch {row['batch']} {row['prompt_len']}+{row['gen_len']}"
    decode_floor, prefill_floor = float(made.decode.floor), float(made.prefill.floor)
    batch, source = float(made.load.batch), row["source"]
    serving = row["source"].startswith(SERVED)
    if metric in ("tpot", "itl", "median_tpot"):
        yield Row(
            "serving TPOT" if serving else "decode",
            name,
            value / 1e3,
            float(made.serving.tpot),
            decode_floor,
            False,
            source,
            engine_of(row),
            made,
        )
    elif metric == "ttft":
        ttft = float(made.serving.ttft)
        yield Row("serving TTFT", name, value / 1e3, ttft, prefill_floor, False, source, engine_of(row), made)
    elif metric == "first_token_latency":
        yield Row("prefill", name, value / 1e3, float(made.prefill_time), prefill_floor, False, source)
    elif metric == "tokens_per_s" and kind == "decode":
        rate = batch / float(made.decode_time)
        label = "decode" if source.startswith("gpt-fast") else "decode, llama.cpp"
        yield Row(label, name, value, rate, batch / decode_floor, True, source)
    elif metric == "tokens_per_s" and kind == "prefill":
        prompt = float(made.load.prompt)
        yield Row(
            "prefill, llama.cpp", name, value, prompt / float(made.prefill_time), prompt / prefill_floor, True, source
        )
    elif metric == "output_throughput" and source.startswith("TensorRT"):
        made = made.with_load(static=True)
        total = batch * float(made.load.generate) / (batch * prefill_floor + float(made.load.generate) * decode_floor)
        yield Row("static batch", name, value, float(made.tokens_per_s_per_device), total / made.devices, True, source)


def training(row: dict[str, str]) -> Iterator[Row]:
    note, devices, wide = row["note"], int(row["n_gpu"]), row["source"].startswith("torchtitan")
    tp, pp, cp, ep = (degree(note, name) for name in ("tp", "pp", "cp", "ep"))
    dp = devices // (tp * pp * cp)
    recompute = "full" if "full AC" in note else "selective" if "selective" in note else "none"
    batch, micro = int(row["batch"]), degree(note, "mbs")
    if wide:  # whose batch is that of one data-parallel rank
        micro, batch = (batch if pp == 1 else 1), batch * dp
    stored = FORMATS[row["dtype_weights"]]
    attention = FLASH_ATTENTION_2 if wide else None
    job = Job(batch, int(row["prompt_len"]), micro, recompute, 2 if "interleaved" in note else 1, attention)
    layout = Layout(tp, pp, dp, ep, cp, sequence=tp > 1, shard=3 if wide else 1)
    made = predict_training(architecture(row["model"]), machine_of(row), job, Formats(stored, stored), layout)
    dense = "training, experts" if ep > 1 else "training"
    floor = job.batch * job.tokens / devices / float(made.step.floor)
    yield Row(
        dense,
        f"{row['model']} {row['gpu']} x{devices} {note[:40]}",
        float(row["value"]),
        made.tokens_per_s_per_device,
        floor,
        True,
        row["source"],
        row["model"],
        made,
    )


def rows_of(path: Path, fitted_only: bool = False) -> tuple[list[Row], dict[str, int]]:
    """Every figure with its prediction; `fitted_only`: those of the kinds that a constant was fitted to."""
    rows: list[Row] = []
    left_out: dict[str, int] = defaultdict(int)
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["phase"].startswith("op-") or row["metric"] in (
                "achieved_bandwidth_per_gpu",
                "peak_memory",
                "model_tflops_per_gpu",
                "gpu_hours",
            ):
                continue
            train = row["phase"] == "train" and row["metric"] == "tokens_per_s_per_gpu"
            if not train and (row["phase"] == "train" or not row["batch"]):
                left_out["batch not stated, or another figure"] += 1
                continue
            if fitted_only and not train and not row["source"].startswith(SERVED):
                continue
            if row["gpu"] not in MACHINES or row["dtype_weights"] not in FORMATS:
                left_out["GPU or format not in this project"] += 1
                continue
            try:
                rows += (training if train else inference)(row)
            except RidgelineError as error:
                left_out[str(error)[:90]] += 1
    return rows, dict(left_out)


def summary(rows: list[Row]) -> list[dict[str, Any]]:
    made = []
    for kind in dict.fromkeys(row.kind for row in rows):
        chosen = [row for row in rows if row.kind == kind]
        errors = np.array([row.error for row in chosen])
        made.append(
            {
                "kind": kind, "rows": len(chosen), "median": np.median(np.abs(errors)), "p90": np.quantile(np.abs(errors), 0.9),
                "bias": np.median(errors), "beaten": sum(row.beaten for row in chosen),
            }
        )  # fmt: skip
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", action="store_true", help="every row, too")
    parser.add_argument("--leave-one-out", action="store_true", help="fitted constants again without one source each")
    arguments = parser.parse_args()
    rows, left_out = rows_of(arguments.table, fitted_only=arguments.leave_one_out)
    if arguments.leave_one_out:
        from refit import leave_one_out

        print("\n".join(leave_one_out(rows)))
        return
    if arguments.rows:
        for row in rows:
            print(
                f"{row.kind:20} {row.name[:90]:90} {row.measured:10.4g} {row.predicted:10.4g} {row.error:+7.0%}{'  BEATS THE FLOOR' if row.beaten else ''}"
            )
    print("| figure | rows | median error | P90 | bias | floors beaten |\n|---|--:|--:|--:|--:|--:|")
    for line in summary(rows):
        print(
            f"| {line['kind']} | {line['rows']} | {line['median']:.0%} | {line['p90']:.0%} | {line['bias']:+.0%} | {line['beaten']} |"
        )
    for reason, count in left_out.items():
        print(f"left out: {count} x {reason}")


if __name__ == "__main__":
    main()
