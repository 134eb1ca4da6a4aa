"""Attention in one kernel (flash): prefill (many queries) and decode (one query per sequence).

prefill: tiles of query rows in waves over the cores, 4 d + softmax flops for every pair a tile looks at
decode:  the cache streams past one query; few heads are split along the keys to fill the cores
"""

from __future__ import annotations

import numpy as np

from .effects import CLOCK, FILL, LAUNCH, OVERLAP, TILES, Array, Effect
from .family import Coefficient, Coefficients, Family, Hardware, Mask, Sizes, overlapped, under_load

QUERY_ROWS = 128.0  # query rows of a tile
UNCACHED_WIDTH = 2.0  # bytes of an element of Q, K and V before they are cached
MIN_SPLIT_KEYS = 128.0  # a split never gets fewer keys

PREFILL = {
    "compute": Coefficient(0.65, 0.1, 1.1, "share of the peak that large tiles reach"),
    "softmax": Coefficient(60.0, 1.0, 3000.0, "flops at that rate that the softmax of one pair costs"),
    "memory": Coefficient(0.80, 0.1, 1.05, "share of the main bandwidth for Q, K, V and O"),
    "launch": Coefficient(6e-6, 1e-6, 8e-5, "seconds of the shortest call"),
    "waves": Coefficient(0.5, 0.02, 1.0, "share of the last, part-filled wave that is lost"),
    "fill": Coefficient(150.0, 2.0, 4000.0, "keys that starting and ending a tile of queries costs"),
    "blend": Coefficient(2.0, 1.0, 8.0, "how well compute and memory overlap"),
    "sustained": Coefficient(0.95, 0.3, 1.3, "clock under lasting load over the clock of short kernels"),
    "settle": Coefficient(1e-3, 1e-5, 0.1, "seconds of load after which half the clock loss shows"),
    "prepare": Coefficient(1.0, 0.01, 30.0, "passes over Q, K and V before the kernel (rotation, cache writes)", True),
    "wide": Coefficient(1.0, 0.5, 3.0, "slow-down for every doubling of the head beyond 128"),
    "narrow": Coefficient(1.0, 0.5, 3.0, "slow-down for every halving of the head below 128"),
}

DECODE = {
    "memory": Coefficient(0.75, 0.1, 1.05, "share of the main bandwidth that the cache streams at"),
    "launch": Coefficient(8e-6, 1e-6, 8e-5, "seconds of the shortest call"),
    "core": Coefficient(2.0, 0.3, 20.0, "what one core can pull over its even share of the bandwidth"),
    "waves": Coefficient(0.5, 0.02, 1.0, "share of the last, part-filled wave that is lost"),
    "compute": Coefficient(0.4, 0.02, 1.1, "share of the peak of the products, padded to 16 query rows"),
    "blend": Coefficient(2.0, 1.0, 8.0, "how well compute and memory overlap"),
    "split": Coefficient(2e-6, 1e-7, 5e-5, "seconds that adding up split keys costs"),
    "cached": Coefficient(1.0, 1.0, 8.0, "how much faster K and V stream that are still in L2"),
    "holds": Coefficient(0.5, 0.05, 1.5, "share of L2 up to which it is still there"),
    "sequence": Coefficient(3e-8, 1e-9, 1e-6, "seconds per sequence of the batch"),
    "fill": Coefficient(1e-6, 1e-8, 2e-5, "seconds that starting and ending a unit of work (a sequence's head) costs"),
    "together": Coefficient(2.0, 0.5, 8.0, "units that a core works on at once"),
}


def variants(g: Sizes, op: str) -> dict[str, Mask]:
    """A single query per sequence is decoding."""
    decoding = np.asarray(g["q"]) == 1
    return {"attention": ~decoding, "decode": decoding}


def masks(g: Sizes) -> dict[str, Mask]:
    """A causal mask has kernels of its own, but for a single query, which sees every key."""
    masked = (np.asarray(g["causal"]) > 0) & (np.asarray(g["q"]) > 1)
    return {"causal": masked, "full": ~masked}


def moved(g: Sizes) -> Array:
    """Bytes of Q, K, V and O."""
    each = g["heads"] * g["q"] * g["x"] + g["shared"] * g["kv"] * g["stored"]
    return 2 * g["batch"] * each * g["d"]


def moved_back(g: Sizes) -> Array:
    """Bytes of Q, O, dO and dQ, of K, V, dK and dV."""
    return 2 * moved(g)


def prefill(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    return _tiled(g, hw, c, off, 4.0, moved(g))


def backward(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    """Five products a pair instead of two, and twice the tensors."""
    return _tiled(g, hw, c, off, 10.0, moved_back(g))


def _tiled(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str], per_pair: float, tensors: Array) -> Array:
    """`per_pair` flops for each element of the head of a pair."""
    heads, q, kv, d, causal = g["batch"] * g["heads"], g["q"], g["kv"], g["d"], g["causal"]
    log = np.log2(d / 128.0)
    slower = c["wide"] ** np.maximum(log, 0.0) * c["narrow"] ** np.maximum(-log, 0.0)
    rate = c["compute"] * hw.peak / slower
    each = per_pair * d + (0.0 if "softmax" in off else c["softmax"])
    if "quantization" in off:
        looked = kv - causal * (q - 1) / 2  # keys a row sees, on average
        compute: Array = heads * q * looked * each / rate
    else:
        tiles = np.ceil(q / QUERY_ROWS)
        rows = np.minimum(QUERY_ROWS, np.ceil(q / 16) * 16)
        looked = np.ceil((kv - causal * (q - np.minimum(q, QUERY_ROWS)) / 2) / 64) * 64
        units = heads * tiles
        full = units / hw.cores
        waves = full + c["waves"] * (np.ceil(full) - full)
        fill = 0.0 if "fill" in off else c["fill"]
        unit = rows * (looked + fill) * each / (rate / hw.cores)
        # with a causal mask the last tile of a sequence sees all keys: nothing is done before it
        longest = rows * (np.ceil(kv / 64) * 64 + fill) * each / (rate / hw.cores)
        compute = np.maximum(waves * unit, longest)
    time = overlapped(under_load(compute, c, off), tensors / (c["memory"] * hw.bandwidth), c, off)
    if c["prepare"] and "prepare" not in off:
        fresh = UNCACHED_WIDTH * g["batch"] * q * (g["heads"] + 2 * g["shared"]) * d
        time = time + c["prepare"] * fresh / hw.bandwidth
    return time if "launch" in off else time + c["launch"]


def decode(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    kv, d = g["kv"], g["d"]
    units, group = g["batch"] * g["shared"], g["heads"] / g["shared"]
    total = moved(g)
    stays = c["holds"] * hw.cache
    key = 2 * d * g["stored"]
    held = key * units * kv  # bytes of K and V
    hot = 1 / (1 + (held / stays) ** 4)
    if "cache" in off:
        hot = hot * 0.0
    factor = 1 - hot + hot / c["cached"]
    memory: Array = (total - held + held * factor) / (c["memory"] * hw.bandwidth)
    padded = np.ceil(group / 16) * 16
    compute: Array = 4 * units * padded * kv * d / (c["compute"] * hw.peak)
    late: Array = 0.0
    if "quantization" not in off:
        places = c["together"] * hw.cores
        parts = np.clip(np.floor(places / units), 1.0, np.maximum(np.floor(kv / MIN_SPLIT_KEYS), 1.0))
        full = units * parts / places
        waves = full + c["waves"] * (np.ceil(full) - full)
        fill = 0.0 if "fill" in off else c["fill"]
        unit = kv / parts * key * factor / (c["core"] * hw.bandwidth / places) + fill
        late = waves * unit
        if "split" not in off:
            late = late + np.where(parts > 1, c["split"], 0.0)
    time = overlapped(overlapped(compute, memory, c, off), late, c, off)
    if "sequence" not in off:
        time = time + c["sequence"] * g["batch"]
    return time if "launch" in off else time + c["launch"]


SOFTMAX, PREPARE = Effect("softmax", "softmax"), Effect("prepare", "rotation and cache writes")
CACHE, SEQUENCE = Effect("cache", "kept in L2"), Effect("sequence", "per sequence")
SPLIT = Effect("split", "split-KV reduction", "shape")
SHAPE = ("batch", "heads", "shared", "q", "kv", "d")
PREFILL_EFFECTS = (SOFTMAX, TILES, FILL, CLOCK, OVERLAP, PREPARE, LAUNCH)
ATTENTION = Family("attention", prefill, PREFILL, PREFILL_EFFECTS, (*SHAPE, "causal"))
BACKWARD = Family("attention_backward", backward, PREFILL, PREFILL_EFFECTS, (*SHAPE, "causal"))
DECODING = Family("decode", decode, DECODE, (CACHE, TILES, FILL, SPLIT, OVERLAP, SEQUENCE, LAUNCH), SHAPE)
