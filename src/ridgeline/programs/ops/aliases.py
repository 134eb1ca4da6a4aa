"""Other names of ops and of their sizes, as frameworks and papers write them. Case, `-` and `_` never matter."""

from __future__ import annotations

from collections.abc import Collection

from ...core.errors import letters

ALIASES = {
    "matmul": "gemm", "mm": "gemm", "addmm": "gemm", "sgemm": "gemm", "dgemm": "gemm", "hgemm": "gemm",
    "batched_gemm": "bmm", "batched_matmul": "bmm", "baddbmm": "bmm",
    "mv": "gemv", "addmv": "gemv", "matvec": "gemv",
    "dense": "linear", "fc": "linear", "fully_connected": "linear",
    "saxpy": "axpy", "daxpy": "axpy", "scale": "scal", "vdot": "dot",
    "triad": "stream_triad",
    "clone": "copy", "memcpy": "copy", "multiply": "mul", "swish": "silu", "residual_add": "residual", "to": "cast",
    "sdpa": "attention", "scaled_dot_product_attention": "attention", "flash_attention": "attention",
    "flash_attn": "attention", "mha": "attention", "multi_head_attention": "attention",
    "layer_norm": "layernorm", "rms_norm": "rmsnorm", "batch_norm": "batchnorm", "cross_entropy_loss": "cross_entropy",
    "rowsum": "sum_rows", "row_sum": "sum_rows", "reduce_sum": "sum", "reduction": "sum",
    "conv": "conv2d", "convolution": "conv2d", "embedding_lookup": "embedding",
    "mixture_of_experts": "moe", "fused_moe": "moe",
    "all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter", "all_to_all_single": "all_to_all",
    "bcast": "broadcast", "send_recv": "p2p",
}  # fmt: skip

# A size by its other names. An op reads the name as the first of these that it has.
SIZES = {
    "b": ("batch",), "bs": ("batch",), "batch_size": ("batch",),
    "in": ("in_features", "c_in"), "out": ("out_features", "c_out"),
    "in_channels": ("c_in",), "out_channels": ("c_out",),
    "height": ("h",), "width": ("w",), "kernel_size": ("kernel",),
    "seq": ("seq_q",), "seq_len": ("seq_q",), "s": ("seq_q",), "kv_seq": ("seq_kv",), "seq_k": ("seq_kv",),
    "num_heads": ("heads",), "n_heads": ("heads",), "h": ("heads",), "num_kv_heads": ("kv_heads",),
    "d": ("head_dim",), "is_causal": ("causal",),
    "num_experts": ("experts",), "hidden_size": ("hidden",), "intermediate_size": ("inter",), "t": ("tokens",),
    "num_embeddings": ("vocab",), "embedding_dim": ("cols",),
    "world_size": ("ranks",), "gpus": ("ranks",), "nranks": ("ranks",),
    "numel": ("n",),
}  # fmt: skip


_SIZES = {letters(name): names for name, names in SIZES.items()}


def size_name(name: str, params: Collection[str]) -> str | None:
    """The parameter that a name means: itself, in another spelling, or by another of its names."""
    if name in params:
        return name
    key = letters(name)
    spelt = [param for param in params if letters(param) == key]
    return next(iter([*spelt, *(param for param in _SIZES.get(key, ()) if param in params)]), None)
