"""Operators of torch 2.13.0 by what they do to their tensors, from its own tags and schemas.

Written by benchmarks/aten_names.py; how each list is made is described there. Do not edit.
"""

from __future__ import annotations

POINTWISE = """
__ilshift__:2 __ixor__:2 __lshift__:2 __rshift__:2 __xor__:2 _conj_physical:1 abs:1 acos:1 acos_:1 acosh:1 acosh_:1
add:3 add_:3 addcdiv:3 addcdiv_:3 addcmul:3 addcmul_:3 angle:1 asin:1 asin_:1 asinh:1 asinh_:1 atan2:2 atan2_:2
atan:1 atan_:1 atanh:1 atanh_:1 bitwise_and:2 bitwise_and_:2 bitwise_left_shift:2 bitwise_left_shift_:2
bitwise_not:1 bitwise_not_:1 bitwise_or:2 bitwise_or_:2 bitwise_right_shift:2 bitwise_right_shift_:2 bitwise_xor:2
bitwise_xor_:2 ceil:1 ceil_:1 celu:2 celu_:2 clamp:3 clamp_:3 clamp_max:2 clamp_max_:2 clamp_min:2 clamp_min_:2
clip:3 clip_:3 clone:1 conj_physical:1 conj_physical_:1 copysign:2 cos:1 cos_:1 cosh:1 cosh_:1 deg2rad:1 deg2rad_:1
digamma:1 digamma_:1 div:2 div_:2 elu:4 elu_:4 eq:2 equal:2 erf:1 erf_:1 erfc:1 erfc_:1 erfinv:1 erfinv_:1 exp2:1
exp2_:1 exp:1 exp_:1 expm1:1 expm1_:1 float_power:2 float_power_:2 floor:1 floor_:1 fmax:2 fmin:2 fmod:2 fmod_:2
frac:1 frac_:1 frexp:1 gcd:2 ge:2 gelu:1 gelu_backward:2 gt:2 hardshrink:2 hardsigmoid:1 hardsigmoid_:1 hardtanh:3
hardtanh_:3 heaviside:2 hypot:2 hypot_:2 i0:1 i0_:1 igamma:2 igamma_:2 igammac:2 igammac_:2 isfinite:1 isinf:1
isnan:1 isneginf:1 isposinf:1 lcm:2 ldexp:2 ldexp_:2 le:2 leaky_relu:2 leaky_relu_:2 lerp:3 lerp_:3 lgamma:1
lgamma_:1 log10:1 log10_:1 log1p:1 log1p_:1 log2:1 log2_:1 log:1 log_:1 logaddexp2:2 logaddexp:2 logical_and:2
logical_and_:2 logical_not:1 logical_not_:1 logical_or:2 logical_or_:2 logical_xor:2 logical_xor_:2 logit:2 logit_:2
logit_backward:3 lt:2 masked_fill:3 max:2 maximum:2 min:2 minimum:2 mish:1 mul:2 mul_:2 mvlgamma:2 mvlgamma_:2
nan_to_num:4 nan_to_num_:4 native_dropout_backward:3 ne:2 neg:1 neg_:1 nextafter:2 nextafter_:2 polygamma:2
polygamma_:2 positive:1 pow:2 pow_:2 rad2deg:1 rad2deg_:1 reciprocal:1 reciprocal_:1 relu6:1 relu:1 relu_:1
remainder:2 remainder_:2 round:1 round_:1 rrelu:5 rsqrt:1 rsqrt_:1 rsub:3 selu:1 selu_:1 sgn:1 sgn_:1 sigmoid:1
sigmoid_:1 sigmoid_backward:2 sign:1 sign_:1 signbit:1 silu:1 silu_:1 silu_backward:2 sin:1 sin_:1 sinc:1 sinc_:1
sinh:1 sinh_:1 softplus:3 softshrink:2 special_airy_ai:1 special_bessel_j0:1 special_bessel_j1:1 special_bessel_y0:1
special_bessel_y1:1 special_chebyshev_polynomial_t:2 special_chebyshev_polynomial_u:2
special_chebyshev_polynomial_v:2 special_chebyshev_polynomial_w:2 special_entr:1 special_erfcx:1
special_hermite_polynomial_h:2 special_hermite_polynomial_he:2 special_i0e:1 special_i1:1 special_i1e:1
special_laguerre_polynomial_l:2 special_legendre_polynomial_p:2 special_log_ndtr:1 special_modified_bessel_i0:1
special_modified_bessel_i1:1 special_modified_bessel_k0:1 special_modified_bessel_k1:1 special_ndtri:1
special_scaled_modified_bessel_k0:1 special_scaled_modified_bessel_k1:1 special_shifted_chebyshev_polynomial_t:2
special_shifted_chebyshev_polynomial_u:2 special_shifted_chebyshev_polynomial_v:2
special_shifted_chebyshev_polynomial_w:2 special_spherical_bessel_j0:1 special_xlog1py:2 special_zeta:2 sqrt:1
sqrt_:1 square:1 square_:1 sub:3 sub_:3 tan:1 tan_:1 tanh:1 tanh_:1 tanh_backward:2 threshold:3 threshold_backward:3
true_divide:2 trunc:1 trunc_:1 where:3 xlogy:2 xlogy_:2
"""

VIEWS = """
_autocast_to_full_precision _autocast_to_reduced_precision _conj _fw_primal _indices _make_dual _neg_view
_nested_get_values _nested_view_from_buffer _nested_view_from_jagged _reshape_alias _sparse_broadcast_to
_test_autograd_multiple_dispatch_view _values adjoint alias as_strided broadcast_to ccol_indices chunk coalesce
col_indices conj contiguous crow_indices detach diagonal dsplit expand expand_as flatten hsplit imag indices
lift_fresh linalg_diagonal mH mT matrix_H moveaxis movedim narrow numpy_T permute pin_memory positive ravel real
reshape reshape_as resolve_conj resolve_neg row_indices select slice slice_inverse split split_with_sizes squeeze
swapaxes swapdims t tensor_split to transpose unbind unflatten unfold unsqueeze values view view_as view_as_complex
view_as_real vsplit
"""

COMPOSITE = """
__and__ __iand__ __ior__ __ixor__ __or__ __xor__ _add_batch_dim _backward _batch_norm_impl_index
_batch_norm_impl_index_backward _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long
_cast_Short _choose_qparams_per_tensor _convolution_double_backward _convolution_mode _cufft_clear_plan_cache
_cufft_get_plan_cache_max_size _cufft_get_plan_cache_size _cufft_set_plan_cache_max_size _debug_has_internal_overlap
_dim_arange _embedding_bag_sparse_backward _fused_rms_norm _gather_sparse_backward _has_compatible_shallow_copy_type
_is_zerotensor _lu_with_info _nnpack_available _pack_padded_sequence_backward _pad_circular _pad_enum
_pad_packed_sequence _propagate_xla_data _remove_batch_dim _reshape_from_tensor _rowwise_prune
_saturate_weight_to_fp16 _scaled_dot_product_attention_math _shape_as_tensor _sobol_engine_draw _sobol_engine_ff_
_sobol_engine_initialize_state_ _sobol_engine_scramble_ _sparse_bsc_tensor_unsafe _sparse_bsr_tensor_unsafe
_sparse_compressed_tensor_unsafe _sparse_coo_tensor_unsafe _sparse_csc_tensor_unsafe _sparse_csr_tensor_unsafe
_sparse_mm _test_ambiguous_defaults _test_check_tensor _test_serialization_subcmul _test_string_default
_thnn_differentiable_gru_cell_backward _thnn_differentiable_lstm_cell_backward _thnn_fused_lstm_cell_backward
_to_cpu _unpack_dual _use_cudnn_rnn_flatten_weight _validate_sparse_bsc_tensor_args _validate_sparse_bsr_tensor_args
_validate_sparse_compressed_tensor_args _validate_sparse_coo_tensor_args _validate_sparse_csc_tensor_args
_validate_sparse_csr_tensor_args _version _weight_norm _weight_norm_differentiable_backward _wrapped_linear_prepack
_wrapped_quantized_linear_prepacked absolute absolute_ adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d affine_grid_generator_backward alpha_dropout alpha_dropout_ arccos arccos_ arccosh arccosh_
arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ argsort argwhere atleast_1d
atleast_2d atleast_3d avg_pool1d batch_norm bilinear broadcast_tensors can_cast cartesian_prod cdist chain_matmul
chalf choose_qparams_optimized clip clip_ column_stack combinations concat concatenate conj_physical conv1d conv2d
conv3d conv_tbc_backward conv_transpose1d conv_transpose2d conv_transpose3d corrcoef cosine_embedding_loss
cosine_similarity cov cross cross_entropy_loss ctc_loss cudnn_is_acceptable cummaxmin_backward cumprod_backward
cumulative_trapezoid data det diag diagflat diff dim divide divide_ dropout dropout_ dstack einsum
embedding_backward embedding_bag embedding_sparse_backward fake_quantize_per_channel_affine
fake_quantize_per_channel_affine_cachemask_backward fake_quantize_per_tensor_affine
fake_quantize_per_tensor_affine_cachemask_backward fbgemm_linear_fp16_weight
fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix feature_alpha_dropout
feature_alpha_dropout_ feature_dropout feature_dropout_ fft_fft fft_fft2 fft_fftn fft_fftshift fft_hfft fft_hfft2
fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn
fft_rfft fft_rfft2 fft_rfftn fill_diagonal_ fix fix_ flatten_dense_tensors fliplr flipud float_power float_power_
frobenius_norm fused_moving_avg_obs_fake_quant gather_backward ger get_device get_gradients gradient greater
greater_ greater_equal greater_equal_ grid_sampler group_norm gru gru_cell hinge_embedding_loss histogramdd hstack
index_select_backward infinitely_differentiable_gelu_backward inner instance_norm inverse is_complex is_conj
is_contiguous is_distributed is_floating_point is_inference is_leaf is_neg is_nonzero is_signed is_vulkan_available
isclose isfinite isreal istft item kl_div kron l1_loss layer_norm less less_ less_equal less_equal_ linalg_cholesky
linalg_cond linalg_det linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv linalg_ldl_factor linalg_lu_factor
linalg_matmul linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_slogdet
linalg_solve linalg_solve_ex linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vander
linalg_vecdot linear log_sigmoid log_softmax logdet lstm lstm_cell lu_solve margin_ranking_loss
masked_select_backward matmul matrix_exp matrix_exp_backward matrix_power max_pool1d max_pool1d_with_indices
max_pool2d max_pool3d meshgrid msort multilabel_margin_loss multiply multiply_ nanmean nanquantile negative
negative_ nested_to_padded_tensor nll_loss nll_loss2d nll_loss_nd nonzero_numpy norm_except_dim not_equal not_equal_
nuclear_norm numel one_hot orgqr outer output_nr pad pad_sequence pairwise_distance pdist pinverse poisson_nll_loss
prelu promote_types qr quantile quantized_gru_cell quantized_lstm_cell quantized_rnn_relu_cell
quantized_rnn_tanh_cell relu6 relu6_ requires_grad_ result_type retain_grad retains_grad rms_norm rnn_relu
rnn_relu_cell rnn_tanh rnn_tanh_cell row_stack rrelu rrelu_ scaled_dot_product_attention selu selu_ set_data size
slogdet slow_conv3d smm softmax sparse_bsc_tensor sparse_bsr_tensor sparse_csc_tensor sparse_csr_tensor
special_digamma special_erf special_erfc special_erfinv special_exp2 special_expit special_expm1 special_gammainc
special_gammaincc special_gammaln special_i0 special_log1p special_log_softmax special_logit special_logsumexp
special_multigammaln special_ndtr special_polygamma special_psi special_round special_sinc special_softmax
special_xlogy square square_ sspaddmm stft storage_offset stride subtract subtract_ sum_to_size svd swapaxes_
swapdims_ sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride take_along_dim tensordot thnn_conv2d
tile to_dense to_dense_backward to_mkldnn_backward to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr
trace_backward trapezoid trapz triplet_margin_loss true_divide true_divide_ type_as unflatten_dense_tensors
unsafe_chunk value_selecting_reduction_backward vander vstack
"""
