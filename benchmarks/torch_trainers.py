"""Training steps of the peers in PyTorch, for `train.py`; run by an interpreter that has torch and transformers.

`plain` is the paper's model with scaled_dot_product_attention and fused projections, `compiled` the same by
torch.compile, `marian` is transformers' own. On an NVIDIA GPU where there is one, in bfloat16 by autocast, as
`plain_bfloat16` is on CPUs.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from workload import PAD, Pair, Size, marian_config, padded, width_of

DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
ADAM = {'lr': 1e-4, 'betas': (0.9, 0.98), 'eps': 1e-9, 'fused': True}


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout, self.inputs = heads, dropout, nn.Linear(width, 3 * width)
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
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=self.dropout)
        return self.output(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, size: Size, dropout: float, *, decodes: bool) -> None:
        super().__init__()
        width = size.d_model
        attention = lambda: Attention(width, size.num_heads, dropout)
        self.attention, self.norm = attention(), nn.LayerNorm(width)
        self.cross = attention() if decodes else None
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
    def __init__(self, size: Size, dropout: float) -> None:
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.table = nn.Embedding(size.vocab_size, size.d_model, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=size.d_model**-0.5)
        self.encoder = nn.ModuleList(Layer(size, dropout, decodes=False) for _ in range(size.layers))
        self.decoder = nn.ModuleList(Layer(size, dropout, decodes=True) for _ in range(size.layers))
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
    return [torch.from_numpy(padded([pair[side] for pair in batch], width)).long().to(DEVICE) for side in (0, 1)]


def trained(batches: list[list[Pair]], size: Size, loss_of, optimizer, *, rounds: bool = DEVICE.type == 'cuda'):
    """Returns a function that takes a training step on each of the batches, in turn."""

    def steps() -> float:
        for batch in batches:
            with torch.autocast(DEVICE.type, torch.bfloat16, enabled=rounds):
                loss = loss_of(*arrays(batch, size))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return steps


def plain(size: Size, batches: list[list[Pair]], attention_dropout: float, *, compiles: bool = False, **options):
    torch.manual_seed(0)
    model = Plain(size, attention_dropout).to(DEVICE).train()
    loss_of = torch.compile(model.loss, dynamic=False) if compiles else model.loss
    return trained(batches, size, loss_of, torch.optim.Adam(model.parameters(), **ADAM), **options)


def plain_bfloat16(size: Size, batches: list[list[Pair]], attention_dropout: float):
    return plain(size, batches, attention_dropout, rounds=True)


def compiled(size: Size, batches: list[list[Pair]], attention_dropout: float):
    return plain(size, batches, attention_dropout, compiles=True)


def marian(size: Size, batches: list[list[Pair]], attention_dropout: float):
    """The same with transformers' MarianMTModel."""
    from transformers import MarianMTModel
    from transformers.trainer_pt_utils import LabelSmoother

    torch.manual_seed(0)
    dropout = {'dropout': 0.1, 'activation_dropout': 0.1, 'attention_dropout': attention_dropout}
    model = MarianMTModel(marian_config(size, **dropout)).to(DEVICE).train()
    pad = model.config.pad_token_id
    smoother = LabelSmoother(epsilon=0.1)

    def loss_of(source, target):
        source, target = (x.masked_fill(x == PAD, pad) for x in (source, target))
        labels = target.masked_fill(target == pad, -100)
        shifted = F.pad(target, (1, 0), value=pad)[:, :-1]
        mask = (source != pad).long()
        output = model(input_ids=source, attention_mask=mask, decoder_input_ids=shifted, use_cache=False)
        return smoother(output, labels)

    return trained(batches, size, loss_of, torch.optim.AdamW(model.parameters(), weight_decay=0.0, **ADAM))
