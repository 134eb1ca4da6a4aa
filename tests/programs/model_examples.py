"""Architectures that tests of models share, small and real ones."""

from __future__ import annotations

from ridgeline.programs.models.architecture import Architecture, Attention, Experts, Latent, Layer, Mlp

LLAMA_8B = Architecture("llama-3-8b", 4096, 128256, (Layer(Attention(32, 8, 128), Mlp(14336), count=32),))
MIXTRAL = Architecture("mixtral-8x7b", 4096, 32000, (Layer(Attention(32, 8, 128), Experts(8, 2, 14336), count=32),))
_LATENT = Latent(128, 1536, 512, 128, 64, 128)
DEEPSEEK = Architecture(
    "deepseek-v3", 7168, 129280,
    (
        Layer(_LATENT, Mlp(18432), count=3),
        Layer(_LATENT, Experts(256, 8, 2048, 2048, router_bias=True), count=58),
    ),
)  # fmt: skip
GPT2 = Architecture(
    "gpt2", 768, 50257,
    (Layer(Attention(12, 12, 64, bias=True, out_bias=True, rotary=False), Mlp(3072, False, True, "gelu"), count=12),),
    tied=True, norm="layernorm", positions=1024,
)  # fmt: skip
GEMMA = Architecture(
    "small-gemma", 256, 1024,
    (
        Layer(Attention(8, 4, 32, window=64), Mlp(512, activation="gelu"), norms=4, count=2),
        Layer(Attention(8, 4, 32), Mlp(512, activation="gelu"), norms=4, count=2),
    ),
    tied=True,
)  # fmt: skip
SMALL_MOE = Architecture(
    "small-moe", 256, 1024, (Layer(Attention(8, 4, 32, head_norm="head"), Experts(8, 2, 128, 128), count=4),)
)
SMALL_LATENT = Architecture(
    "small-latent", 256, 1024, (Layer(Latent(8, 64, 32, 16, 8, 16), Experts(8, 2, 128, 128), count=4),)
)
FALCON = Architecture(
    "small-falcon", 256, 1024,
    (Layer(Attention(8, 1, 32), Mlp(1024, False, activation="gelu"), norms=1, count=4, parallel=True),),
    norm="layernorm",
)  # fmt: skip
BERT = Architecture(
    "small-bert", 256, 1024,
    (Layer(Attention(8, 8, 32, bias=True, out_bias=True, rotary=False), Mlp(1024, False, True, "gelu"), count=4),),
    norm="layernorm", positions=512, causal=False, embedding_norm=True, final_norm=False, token_types=2, tied=True,
)  # fmt: skip
GPT_OSS = Architecture(
    "small-oss", 256, 1024,
    (
        Layer(Attention(8, 2, 32, bias=True, window=32, sinks=True), Experts(8, 2, 128, bias=True, router_bias=True), count=2),
        Layer(Attention(8, 2, 32, bias=True, sinks=True), Experts(8, 2, 128, bias=True, router_bias=True), count=2),
    ),
)  # fmt: skip
SMALL = (GEMMA, SMALL_MOE, SMALL_LATENT, FALCON, BERT, GPT_OSS)
