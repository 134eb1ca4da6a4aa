"""Attention with a sliding window by a Triton kernel, to time in addition to every family's calibration.

    python benchmarks/windows.py calibration > cases.csv
    python benchmarks/windows.py test > cases.csv            never to be fitted to

Windows of 64 to 16384 keys, those that models have as often as any, over sequences of up to 32768; the last queries of a longer
sequence among them, as chunks of a prompt are. The same table every time.
"""

from __future__ import annotations

from drawn import print_cases

from ridgeline.measure.cuda.cases import fits
from ridgeline.measure.cuda.draw import Case, Draw, head_counts

COUNTS = {"calibration": 900, "test": 240}
SEEDS = {"calibration": 10410, "test": 10420}
WINDOWS = (128, 512, 1024, 2048, 4096, 8192)
CHUNKED_SHARE = 0.2


def cases(draw: Draw, count: int) -> list[Case]:
    drawn: list[Case] = []
    while len(drawn) < count:
        heads, seq = head_counts(draw), draw.size(64, 32768)
        window = draw.choice(WINDOWS) if draw.chance(0.5) else draw.size(64, 16384)
        if window >= seq:
            continue
        queries = draw.size(16, seq) if draw.chance(CHUNKED_SHARE) else seq
        case: Case = {
            **{"op": "attention", "dtype": ("bf16", "fp16")[len(drawn) % 2], "batch": draw.size(1, 64)},
            **{"heads": heads[0], "kv_heads": heads[1], "seq_q": queries, "seq_kv": seq, "causal": True},
            **{"head_dim": draw.choice((64, 128, 128, 256)), "window": window, "variant": "flash"},
            "backend": "triton",
        }
        if fits(case):
            drawn.append(case)
    return drawn


if __name__ == "__main__":
    print_cases(cases, COUNTS, SEEDS)
