"""Training steps of the peers in PyTorch, for `train.py`; run by an interpreter that has torch and transformers.

`plain` is the paper's model with scaled_dot_product_attention and fused projections, `marian` is transformers' own.
"""

import math

import torch
import torch.nn.functional as F
from sized_models import marian_config
from torch import nn
from workload import PAD, Pair, Size, padded, width_of

ADAM = {'lr': 1e-4, 'betas': (0.9, 0.98), 'eps': 1e-9, 'fused': True}


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.inputs = heads, nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x, memory=None, mask=None, causal=False):
        if memory is None:
            parts = self.inputs(x).chunk(3, -1)
        else:
            width = x.shape[-1]
            weight, bias = self.inputs.weight, self.inputs.bias
            keys_and_values = F.linear(memory, weight[width:], bias[width:])
            parts = F.linear(x, weight[:width], bias[:width]), *keys_and_values.chunk(2, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=0.1)
        return self.output(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, size: Size, *, decodes: bool) -> None:
        super().__init__()
        width = size.d_model
        self.attention, self.norm = Attention(width, size.num_heads), nn.LayerNorm(width)
        self.cross = Attention(width, size.num_heads) if decodes else None
        self.cross_norm = nn.LayerNorm(width) if decodes else None
        self.inner, self.outer = nn.Linear(width, size.d_ff), nn.Linear(size.d_ff, width)
        self.last_norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x, mask, memory=None):
        causal = memory is not None
        x = self.norm(x + self.drop(self.attention(x, mask=None if causal else mask, causal=causal)))
        if causal:
            x = self.cross_norm(x + self.drop(self.cross(x, memory, mask)))
        return self.last_norm(x + self.drop(self.outer(self.drop(F.relu(self.inner(x))))))


class Plain(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.table = nn.Embedding(size.vocab_size, size.d_model, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=size.d_model**-0.5)
        self.encoder = nn.ModuleList(Layer(size, decodes=False) for _ in range(size.layers))
        self.decoder = nn.ModuleList(Layer(size, decodes=True) for _ in range(size.layers))
        self.drop = nn.Dropout(0.1)
        angles = torch.arange(128)[:, None] * torch.exp(
            torch.arange(0, size.d_model, 2) * (-math.log(1e4) / size.d_model)
        )
        self.register_buffer('positions', torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def embed(self, ids):
        return self.drop(self.table(ids) * self.scale + self.positions[: ids.shape[1]])

    def loss(self, source, target):
        mask = (source != PAD)[:, None, None, :]
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, mask)
        x = self.embed(F.pad(target, (1, 0), value=1)[:, :-1])
        for layer in self.decoder:
            x = layer(x, mask, memory)
        logits = F.linear(x, self.table.weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=0.1)


def arrays(batch: list[Pair], size: Size) -> list[torch.Tensor]:
    width = width_of(batch, size)
    return [torch.from_numpy(padded([pair[side] for pair in batch], width)).long() for side in (0, 1)]


def plain(size: Size, batches: list[list[Pair]]):
    """A function that takes a training step on each of the batches, in turn."""
    torch.manual_seed(0)
    model = Plain(size).train()
    optimizer = torch.optim.Adam(model.parameters(), **ADAM)

    def steps() -> float:
        for batch in batches:
            loss = model.loss(*arrays(batch, size))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return steps


def marian(size: Size, batches: list[list[Pair]]):
    """The same with transformers' MarianMTModel."""
    from transformers import MarianMTModel
    from transformers.trainer_pt_utils import LabelSmoother

    torch.manual_seed(0)
    dropout = dict.fromkeys(('dropout', 'attention_dropout', 'activation_dropout'), 0.1)
    model = MarianMTModel(marian_config(size, **dropout)).train()
    pad = model.config.pad_token_id
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0, **ADAM)
    smoother = LabelSmoother(epsilon=0.1)

    def steps() -> float:
        for batch in batches:
            source, target = (x.masked_fill(x == PAD, pad) for x in arrays(batch, size))
            labels = target.masked_fill(target == pad, -100)
            shifted = F.pad(target, (1, 0), value=pad)[:, :-1]
            mask = (source != pad).long()
            output = model(input_ids=source, attention_mask=mask, decoder_input_ids=shifted, use_cache=False)
            loss = smoother(output, labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return steps
