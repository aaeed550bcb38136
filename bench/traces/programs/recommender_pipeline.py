"""Trains a recommender in three stages. Batches are copied on one stream. One batch ahead of
training, their features are exchanged and permuted on another stream. The main stream looks up,
computes and updates. The order of calls is that of TorchRec's TrainPipelineSparseDist. The exchange
between ranks is a copy of the same size."""

import random

import torch
from torch import nn
from torch.nn import functional

FEATURES, ROWS, WIDTH, BATCH = 12, 20_000, 64, 4096
random.seed(1)
torch.manual_seed(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(FEATURES))
        self.dense = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, WIDTH), nn.ReLU())
        self.over = nn.Sequential(nn.Linear((FEATURES + 1) * WIDTH, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense, features):
        rows = [table(ids, offsets) for table, (ids, offsets) in zip(self.tables, features)]
        return self.over(torch.cat([self.dense(dense), *rows], dim=1)).squeeze(1)


main, memcpy, data_dist = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()
model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def copied():
    """Makes the next batch: dense features, labels, and ids and offsets of each sparse feature."""
    with torch.cuda.stream(memcpy):
        dense = torch.rand(BATCH, 13).pin_memory().to("cuda", non_blocking=True)
        labels = torch.randint(0, 2, (BATCH,)).float().pin_memory().to("cuda", non_blocking=True)
        counts = [BATCH * random.randint(5, 40) for _ in range(FEATURES)]
        ids = torch.randint(0, ROWS, (sum(counts),)).pin_memory().to("cuda", non_blocking=True)
    return dense, labels, counts, ids


def exchanged(batch):
    """Sends ids to the ranks that have their tables, and receives the ids of other ranks."""
    dense, labels, counts, ids = batch
    data_dist.wait_stream(memcpy)
    with torch.cuda.stream(data_dist):
        ids.record_stream(data_dist)
        received = torch.empty_like(ids).copy_(ids)
        features = []
        for part, count in zip(received.split(counts), counts):
            permuted = part.clone()
            features.append((permuted, torch.arange(0, count, count // BATCH, device="cuda")[:BATCH]))
    return dense, labels, features, data_dist.record_event()


following, current = copied(), exchanged(copied())
for step in range(8):
    dense, labels, features, ready = current
    after = copied()
    main.wait_event(ready)
    main.wait_stream(memcpy)
    for tensor in (dense, labels, *(each for pair in features for each in pair)):
        tensor.record_stream(main)
    optimizer.zero_grad(set_to_none=True)
    loss = functional.binary_cross_entropy_with_logits(model(dense, features), labels)
    current, following = exchanged(following), after
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        loss.item()
