"""Operators without work of their own: views and metadata, wrappers of other operators, reads by the host."""

from __future__ import annotations

import re

from .arguments import base_name
from .names import COMPOSITE, VIEWS

# Views by torch's schemas that copy where they must: their inner calls say whether they did.
_MAYBE_COPIES = """
contiguous reshape reshape_as flatten ravel to pin_memory resolve_conj resolve_neg _autocast_to_full_precision
_autocast_to_reduced_precision coalesce unflatten positive
"""
# Allocation, metadata, checks and marks: nothing is read or written on the device.
_BOOKKEEPING = """
empty empty_like empty_strided new_empty new_empty_strided empty_permuted _empty_affine_quantized set_ resize_ resize_as_
resize _unsafe_view size stride numel dim is_contiguous is_floating_point is_complex sym_size sym_stride sym_numel
sym_storage_offset storage_offset result_type can_cast promote_types is_pinned is_same_size detach_ requires_grad_
record_stream t_ transpose_ squeeze_ unsqueeze_ as_strided_ swapaxes_ swapdims_ unsafe_split unsafe_split_with_sizes
unsafe_chunk _has_compatible_shallow_copy_type output_nr _version is_leaf retains_grad _is_zerotensor set_data data
_assert_async _assert_scalar _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size
_functional_assert_async _print _debug_has_internal_overlap cudnn_is_acceptable _use_cudnn_ctc_loss _nnpack_available
is_inference get_device wait_tensor barrier monitored_barrier_ rename rename_ refine_names align_as dense_dim sparse_dim
_fused_sdp_choice is_neg is_conj is_signed is_distributed _nested_tensor_size _cufft_get_plan_cache_size
_record_function_enter _record_function_enter_new _record_function_exit _make_dual _unpack_dual
"""
# Their inner calls do the work in eager execution: fills, copies, the library's own operator.
_NESTED = """
zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full zero_ fill clone _to_copy stack repeat embedding
convolution _convolution convolution_overrideable _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention
_scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention
_scaled_dot_product_cudnn_attention_backward rand randn randint rand_like randn_like randint_like normal index_put
index_put_ scalar_tensor cummax cummin softmax log_softmax adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
select_backward slice_backward diagonal_backward masked_scatter masked_fill block_diag native_channel_shuffle
channel_shuffle binary_cross_entropy_with_logits celu selu logsumexp _safe_softmax rot90 diag_embed repeat_interleave
_native_multi_head_attention _transformer_encoder_layer_fwd expand_copy view_copy split_with_sizes_copy split_copy
unbind_copy trace lstm gru _embedding_bag_backward
"""
MAYBE_COPIES = frozenset(_MAYBE_COPIES.split())
FREE = (frozenset(VIEWS.split()) - MAYBE_COPIES) | frozenset(_BOOKKEEPING.split())
HOST = frozenset({"item", "_local_scalar_dense", "is_nonzero", "equal", "allclose"})
NESTED = frozenset(_NESTED.split())
ON_GPUS = {"_fused_rms_norm"}  # made of others on the CPU, a kernel on GPUs
WRAPPERS = (frozenset(COMPOSITE.split()) | MAYBE_COPIES | NESTED) - FREE - HOST
# Ranges that profilers, autograd, optimizers and compilers mark around operators.
_RANGES = re.compile(
    r"autograd::engine::|torch::autograd::|\w+Backward\d*$|Optimizer\.|ProfilerStep|ridgeline\.step|Torch-Compiled Region"
    r"|CompiledFunction|nn\.Module:|enumerate\(DataLoader\)|DistributedDataParallel\.|FullyShardedDataParallel\.|FSDP::"
    r"|## Call CompiledFxGraph|AOTDispatcher|TorchDynamo|profiler::|PyTorch Profiler"
    r"|(?:while|conditional|call|async-start)(?:\.\d+)?$"
)


def is_free(base: str) -> bool:
    return base in FREE


def is_host(base: str) -> bool:
    return base in HOST


def is_wrapper(name: str, device: str = "cuda") -> bool:
    """Ranges around operators, and operators made of other operators."""
    base = base_name(name)
    if base in ON_GPUS and device != "cpu":
        return False
    return base in WRAPPERS or bool(_RANGES.match(name))
