"""Trains a transformer on sequences of varying length. A loader copies them on its own stream.

An optimizer step has two micro-batches. An evaluation follows every fourth step.
"""

import random

import torch
from torch import nn
from torch.nn import functional

TOKENS, WIDTH, BLOCKS, BATCH = 8000, 512, 4, 16
random.seed(1)
torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.query_key_value, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dense = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        heads = self.query_key_value(self.norms[0](x)).unflatten(-1, (3, 8, -1)).movedim(2, 0).transpose(2, 3)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.dense(self.norms[1](x))


class Loader:
    """Yields batches of ids on the GPU. The next batch is copied while the current one is used."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.fetch()

    def fetch(self):
        ids = torch.randint(0, TOKENS, (BATCH, random.randrange(64, 512, 8))).pin_memory()
        with torch.cuda.stream(self.stream):
            self.ready = ids.to("cuda", non_blocking=True)

    def next(self):
        main = torch.cuda.current_stream()
        main.wait_stream(self.stream)
        batch = self.ready
        batch.record_stream(main)
        self.fetch()
        return batch


model = nn.Sequential(nn.Embedding(TOKENS, WIDTH), *(Block() for _ in range(BLOCKS)), nn.Linear(WIDTH, TOKENS)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = Loader()


def loss_of(ids):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


for step in range(8):
    for _ in range(2):
        loss_of(loader.next()).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 4 == 3:
        with torch.no_grad():
            sum(loss_of(loader.next()) for _ in range(3)).item()
