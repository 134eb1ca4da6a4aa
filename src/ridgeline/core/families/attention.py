"""Attention in one kernel (flash): prefill (many queries) and decode (one query per sequence).

prefill: tiles of query rows in waves over the cores, 4 d + softmax flops for every pair a tile looks at
decode:  the cache streams past one query; few heads are split along the keys to fill the cores
"""

from __future__ import annotations

import numpy as np

from .effects import CLOCK, FILL, LAUNCH, OVERLAP, TILES, Array, Effect
from .family import Coefficient, Coefficients, Family, Hardware, Mask, Sizes, overlapped, under_load
from .rounds import pieces, waves

UNCACHED_WIDTH = 2.0  # bytes of an element of Q, K and V before they are cached
MIN_SPLIT_KEYS = 128.0  # a split never gets fewer keys
SPLIT_ROUNDS = (1.0, 2.0, 3.0)  # that split keys fill
TILE_KEYS = 64.0  # keys that a tile of queries looks at together
GROUP_ROWS = 16.0  # query rows that a tensor unit multiplies at least
NARROW_HEAD, USUAL_HEAD = 64.0, 128.0  # head sizes up to which libraries have kernels of their own
WINDOW = "window"  # the size that says how many keys a query sees at most, and the op of masks that it cuts
# Of the special-function rate, what the exponentials of the fastest timed kernels reach: heads of 64 in fp8 on an H100 (in 16 bits 0.53). The
# products take longer with larger heads there, but not on GPUs whose matrix units are faster and whose special-function units are not.
EXPONENTIAL_SHARE = 0.58
MAX_HEAD = 256.0  # that was timed, and that most libraries take

PREFILL = {
    "compute": Coefficient(0.65, 0.1, 1.0, "share of the peak that large tiles reach"),
    "softmax": Coefficient(60.0, 1.0, 3000.0, "flops at that rate that the softmax of one pair costs"),
    "memory": Coefficient(0.80, 0.1, 1.0, "share of the main bandwidth for Q, K, V and O"),
    "launch": Coefficient(6e-6, 1e-6, 8e-5, "seconds of the shortest call"),
    "waves": Coefficient(0.5, 0.02, 1.0, "share of the last, part-filled wave that is lost"),
    "fill": Coefficient(150.0, 2.0, 4000.0, "keys that starting and ending a tile of queries costs"),
    "blend": Coefficient(2.0, 1.0, 8.0, "how well compute and memory overlap"),
    "sustained": Coefficient(0.95, 0.3, 1.0, "clock under lasting load over the clock of short kernels"),
    "settle": Coefficient(1e-3, 1e-5, 0.1, "seconds of load after which half the clock loss shows"),
    "prepare": Coefficient(1.0, 0.01, 30.0, "passes over Q, K and V before the kernel (rotation, cache writes)", True),
    "wide": Coefficient(1.0, 1.0, 3.0, "slow-down of the products for every doubling of the head beyond 128"),
    "narrow": Coefficient(1.0, 1.0, 2.0, "slow-down of the products for every halving of the head below 128"),
    "tall": Coefficient(128.0, 64.0, 128.0, "query rows of a tile"),
    "step": Coefficient(16.0, 16.0, 64.0, "multiple that the head size is padded to"),
}

DECODE = {
    "memory": Coefficient(0.75, 0.1, 1.0, "share of the main bandwidth that the cache streams at"),
    "launch": Coefficient(8e-6, 1e-6, 8e-5, "seconds of the shortest call"),
    "core": Coefficient(2.0, 0.3, 20.0, "what one core can pull over its even share of the bandwidth"),
    "waves": Coefficient(0.5, 0.02, 1.0, "share of the last, part-filled wave that is lost"),
    "compute": Coefficient(0.4, 0.02, 1.0, "share of the peak of the products, padded to 16 query rows"),
    "blend": Coefficient(2.0, 1.0, 8.0, "how well compute and memory overlap"),
    "split": Coefficient(2e-6, 1e-7, 5e-5, "seconds that adding up split keys costs"),
    "cached": Coefficient(1.0, 1.0, 8.0, "how much faster K and V stream that are still in L2"),
    "holds": Coefficient(0.5, 0.05, 1.5, "share of L2 up to which it is still there"),
    "sequence": Coefficient(3e-8, 1e-9, 1e-6, "seconds per sequence of the batch"),
    "fill": Coefficient(1e-6, 1e-8, 2e-5, "seconds that starting and ending a unit of work (a sequence's head) costs"),
    "together": Coefficient(2.0, 0.5, 8.0, "units that a core works on at once"),
    "step": Coefficient(16.0, 16.0, 64.0, "multiple that the head size is padded to"),
    "unsplit": Coefficient(1.0, 1.0, 4.0, "slow-down of the kernel that does not split keys"),
    "splits": Coefficient(128.0, 1.0, 128.0, "parts that keys are split in at most"),
}


def variants(g: Sizes, op: str) -> dict[str, Mask]:
    """A single query per sequence is decoding; both have kernels by the size of the head."""
    queries, heads = by_queries(g, op), _by_head(g)
    return {family + head: mask & of_head for family, mask in queries.items() for head, of_head in heads.items()}


def by_queries(g: Sizes, op: str) -> dict[str, Mask]:
    decoding = np.asarray(g["q"]) == 1
    return {"attention": ~decoding, "decode": decoding}


def backward_variants(g: Sizes, op: str) -> dict[str, Mask]:
    return {f"attention_backward{head}": of_head for head, of_head in _by_head(g).items()}


def _by_head(g: Sizes) -> dict[str, Mask]:
    d = np.asarray(g["d"])
    narrow, wide = d <= NARROW_HEAD, d > USUAL_HEAD
    return {"": ~narrow & ~wide, "-narrow": narrow, "-wide": wide}


def masks(g: Sizes) -> dict[str, Mask]:
    """A causal mask has kernels of its own, but for a single query, which sees every key; so has one with a window that cuts."""
    masked = (np.asarray(g["causal"]) > 0) & (np.asarray(g["q"]) > 1)
    if WINDOW not in g:
        return {"causal": masked, "full": ~masked}
    cut = masked & (np.asarray(g[WINDOW]) < g["kv"])
    return {WINDOW: cut, "causal": masked & ~cut, "full": ~masked}


def visible_pairs(q: Array, kv: Array, causal: Array, window: Array | None) -> Array:
    """(query, key) pairs per head that a mask leaves: none, causal, or a causal window of `window` keys."""
    if window is None:
        return q * kv - causal * q * (q - 1) / 2

    def up_to(position: Array) -> Array:
        """Sum of min(j, window) for j = 1 .. position."""
        short: Array = np.minimum(position, window)
        beyond: Array = np.maximum(position - window, 0.0)
        return short * (short + 1) / 2 + beyond * window

    return up_to(kv) - up_to(kv - q)


def seen_keys(g: Sizes) -> Array:
    """Keys that some query sees."""
    if WINDOW not in g:
        return g["kv"]
    return np.where(np.asarray(g["causal"]) > 0, np.minimum(g["kv"], g["q"] + g[WINDOW] - 1), g["kv"])


def moved(g: Sizes) -> Array:
    """Bytes of Q, K, V and O."""
    each = g["heads"] * g["q"] * g["x"] + g["shared"] * seen_keys(g) * g["stored"]
    return 2 * g["batch"] * each * g["d"]


def moved_back(g: Sizes) -> Array:
    """Bytes of Q, O, dO and dQ, of K, V, dK and dV."""
    return 2 * moved(g)


def prefill(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    return _tiled(g, hw, c, off, 4.0, moved(g))


def backward(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    """Five products a pair instead of two, and twice the tensors."""
    return _tiled(g, hw, c, off, 10.0, moved_back(g))


def _padded(d: Array, c: Coefficients, off: frozenset[str]) -> Array:
    return d if "quantization" in off else np.ceil(d / c["step"]) * c["step"]


def _looked(g: Sizes) -> Array:
    """Keys that a row sees, on average."""
    q, kv, causal = g["q"], g["kv"], g["causal"]
    looked: Array = kv - causal * (q - 1) / 2
    if WINDOW not in g:
        return looked
    return np.where(np.asarray(causal) > 0, visible_pairs(q, kv, 1.0, g[WINDOW]) / q, looked)


def _tiled(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str], per_pair: float, tensors: Array) -> Array:
    """`per_pair` flops for each element of the head of a pair."""
    heads, q, kv, causal = g["batch"] * g["heads"], g["q"], g["kv"], g["causal"]
    d = _padded(g["d"], c, off)
    log = np.log2(d / USUAL_HEAD)
    slower = c["wide"] ** np.maximum(log, 0.0) * c["narrow"] ** np.maximum(-log, 0.0)
    each = per_pair * d * slower + (0.0 if "softmax" in off else c["softmax"])
    rate = c["compute"] * hw.peak
    if "quantization" in off:
        compute: Array = heads * q * _looked(g) * each / rate
    else:
        tall, fill = c["tall"], 0.0 if "fill" in off else c["fill"]
        tiles = np.ceil(q / tall)
        keys = most = np.ceil(kv / TILE_KEYS) * TILE_KEYS  # that a tile looks at
        step = tall * each / (rate / hw.cores)  # seconds of a tile for a key
        # tiles of a causal mask differ in length, and the last of a sequence sees all keys; those of a window see it and their own rows
        together = tiles * (keys - (tiles - 1) * tall / 2)
        if WINDOW in g:
            together = np.minimum(together, visible_pairs(q, kv, 1.0, g[WINDOW]) / tall + tiles * tall / 2)
            most = np.minimum(keys, np.ceil((g[WINDOW] + tall) / TILE_KEYS) * TILE_KEYS)
        longest = step * (most + fill)
        # the long ones go first, and short ones fill the last round
        total = heads * step * (together + tiles * fill) / hw.cores
        masked = np.maximum(total, longest) + c["waves"] * np.minimum(total, longest)
        unmasked = waves(heads * tiles, hw.cores, c["waves"]) * step * (keys + fill)
        compute = np.where(np.asarray(causal) > 0, masked, unmasked)
    if "softmax" not in off:
        compute = np.maximum(compute, heads * q * _looked(g) / (EXPONENTIAL_SHARE * hw.special))
    time = overlapped(under_load(compute, hw, c, off), tensors / (c["memory"] * hw.bandwidth), c, off)
    if c["prepare"] and "prepare" not in off:
        fresh = UNCACHED_WIDTH * g["batch"] * q * (g["heads"] + 2 * g["shared"]) * g["d"]
        time = time + c["prepare"] * fresh / hw.bandwidth
    return time if "launch" in off else time + c["launch"]


def decode(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    kv, units = seen_keys(g), g["batch"] * g["shared"]
    total = moved(g)
    held = 2 * units * kv * g["d"] * g["stored"]  # bytes of K and V
    hot: Array = 0.0 if "cache" in off else 1 / (1 + (held / (c["holds"] * hw.cache)) ** 4)
    factor = 1 - hot + hot / c["cached"]
    memory: Array = (total - held + held * factor) / (c["memory"] * hw.bandwidth)
    rows = np.maximum(g["heads"], GROUP_ROWS * g["shared"]) * g["batch"]
    compute: Array = 4 * rows * kv * g["d"] / (c["compute"] * hw.peak)
    late: Array = 0.0
    if "quantization" not in off:
        places = c["together"] * hw.cores
        key = 2 * _padded(g["d"], c, off) * g["stored"] * factor / (c["core"] * hw.bandwidth / places)
        fill = 0.0 if "fill" in off else c["fill"]
        late = waves(units, places, c["waves"]) * (kv * key * c["unsplit"] + fill)
        most, adding = (
            np.minimum(np.maximum(kv / MIN_SPLIT_KEYS, 1.0), c["splits"]),
            0.0 if "split" in off else c["split"],
        )
        for rounds in SPLIT_ROUNDS:
            parts = pieces(units, places, rounds, most)
            split = rounds * (kv / parts * key + fill) + adding
            late = np.where(parts > 1, np.minimum(late, split), late)  # one part is left to the kernel without a split
    time = overlapped(overlapped(compute, memory, c, off), late, c, off)
    if "sequence" not in off:
        time = time + c["sequence"] * g["batch"]
    return time if "launch" in off else time + c["launch"]


SOFTMAX, PREPARE = Effect("softmax", "softmax"), Effect("prepare", "rotation and cache writes")
CACHE, SEQUENCE = Effect("cache", "kept in L2"), Effect("sequence", "per sequence")
SPLIT = Effect("split", "split-KV reduction", "shape")
SHAPE = ("batch", "heads", "shared", "q", "kv", "d")
PREFILL_EFFECTS = (SOFTMAX, TILES, FILL, CLOCK, OVERLAP, PREPARE, LAUNCH)
ATTENTION = Family("attention", prefill, PREFILL, PREFILL_EFFECTS, (*SHAPE, "causal"), further=(WINDOW,))
BACKWARD = Family("attention_backward", backward, PREFILL, PREFILL_EFFECTS, (*SHAPE, "causal"), further=(WINDOW,))
DECODING = Family("decode", decode, DECODE, (CACHE, TILES, FILL, SPLIT, OVERLAP, SEQUENCE, LAUNCH), SHAPE)
