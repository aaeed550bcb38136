"""Small trainings, as generators: each `next` is a step."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before_dense = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.before_attention(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.dense(self.before_dense(x))


class Transformer(nn.Module):
    def __init__(self, tokens, width=256, length=128, blocks=4, heads=8):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.out = nn.Linear(width, tokens)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.out(self.blocks(self.embedding(ids) + self.position(places)))


def train_transformer(device, tokens=4000, batch=16, length=128, width=256, blocks=4):
    """Trains with mixed precision and AdamW. A copy stream fetches the batches."""
    model = Transformer(tokens, width, length, blocks).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    copy = torch.cuda.Stream()
    while True:
        batch_on_host = torch.randint(0, tokens, (batch, length)).pin_memory()
        with torch.cuda.stream(copy):
            ids = batch_on_host.to(device, non_blocking=True)
        torch.cuda.current_stream().wait_stream(copy)
        ids.record_stream(torch.cuda.current_stream())
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(ids)
            loss = functional.cross_entropy(out.flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss


class Dlrm(nn.Module):
    """Embeddings of categorical features, their pairwise products, and dense layers below and above."""

    def __init__(self, tables, rows, width, dense):
        super().__init__()
        features = tables + 1
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.below = nn.Sequential(nn.Linear(dense, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        self.above = nn.Sequential(
            nn.Linear(width + features * (features - 1) // 2, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, dense, ids, offsets):
        rows = [table(i, o) for table, i, o in zip(self.tables, ids, offsets)]
        features = torch.stack([self.below(dense), *rows], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        first, second = torch.tril_indices(features.shape[1], features.shape[1], -1)
        pairs = products[:, first, second]
        return self.above(torch.cat([features[:, 0], pairs], dim=1)).squeeze(1)


def train_dlrm(device, tables=16, rows=50_000, width=64, dense=13, batch=1024, copy=None):
    """Trains with SGD. Embedding bags have one to six rows, so the number of rows changes with each batch.

    The stream `copy` fetches the batches; without it, the main stream does.
    """
    model = Dlrm(tables, rows, width, dense).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    main = torch.cuda.current_stream()

    def fetched(tensor):
        on_host = tensor.pin_memory()
        if copy is None:
            return on_host.to(device, non_blocking=True)
        with torch.cuda.stream(copy):
            on_device = on_host.to(device, non_blocking=True)
        main.wait_stream(copy)
        on_device.record_stream(main)
        return on_device

    while True:
        lengths = [torch.randint(1, 7, (batch,)) for _ in range(tables)]
        ids = [fetched(torch.randint(0, rows, (int(each.sum()),))) for each in lengths]
        offsets = [fetched(torch.cumsum(each, 0) - each) for each in lengths]
        labels = fetched(torch.randint(0, 2, (batch,)).float())
        out = model(fetched(torch.rand(batch, dense)), ids, offsets)
        loss = functional.binary_cross_entropy_with_logits(out, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss
