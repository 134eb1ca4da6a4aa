"""One decoder layer of Llama-3-8B from its `transformers` configuration, on the meta device: prefill and its gradients."""

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

CONFIG = LlamaConfig(
    hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8, num_hidden_layers=1,
    rope_theta=500000.0, attn_implementation="sdpa",
)  # fmt: skip


class Block(torch.nn.Module):
    """A layer with its rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rotary = LlamaDecoderLayer(CONFIG, 0), LlamaRotaryEmbedding(CONFIG)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)[None]
        return self.layer(x, position_embeddings=self.rotary(x, places), position_ids=places)


def block():
    with torch.device("meta"):
        model = Block().to(torch.bfloat16)
    return model, (torch.empty(1, 4096, 4096, dtype=torch.bfloat16, device="meta"),)
