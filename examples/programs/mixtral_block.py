"""One decoder layer of Mixtral-8x7B from its `transformers` configuration, on the meta device: two of eight experts a token."""

import torch
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralDecoderLayer, MixtralRotaryEmbedding

CONFIG = MixtralConfig(
    num_hidden_layers=1, attn_implementation="sdpa", experts_implementation="grouped_mm"
)  # all sizes are those of Mixtral-8x7B


class Block(torch.nn.Module):
    """A layer with its rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rotary = MixtralDecoderLayer(CONFIG, 0), MixtralRotaryEmbedding(CONFIG)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)[None]
        return self.layer(x, position_embeddings=self.rotary(x, places), position_ids=places)


def block():
    with torch.device("meta"):
        model = Block().to(torch.bfloat16)
    return torch.no_grad()(model), (torch.empty(1, 4096, 4096, dtype=torch.bfloat16, device="meta"),)
