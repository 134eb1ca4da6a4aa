"""BERT-base from its `transformers` configuration, on the meta device: 32 sequences of 512 tokens in bf16."""

import torch
from transformers import BertConfig, BertModel


def inference():
    with torch.device("meta"):
        model = BertModel(BertConfig())
    return torch.no_grad()(model.to(torch.bfloat16).eval()), (torch.zeros(32, 512, dtype=torch.long),)
