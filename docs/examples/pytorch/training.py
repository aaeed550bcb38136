"""A training loop that copies its batches on a side stream. Nothing in it knows of Millrace."""

import random

import torch

MIB = 1 << 20
random.seed(1)
model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(3))).cuda()
optimizer = torch.optim.Adam(model.parameters())
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
rows = [random.randrange(16, 64) << 16 for _ in range(30)]  # 64 to 256 MiB a batch
host = torch.empty(max(rows), 16, pin_memory=True)


def copy(count):
    with torch.cuda.stream(side):
        return host[:count].to("cuda", non_blocking=True)


batch = copy(rows[0])
for following in [*rows[1:], None]:
    main.wait_stream(side)
    current = batch
    current.record_stream(main)
    if following is not None:
        batch = copy(following)  # while main computes
    loss = model(current).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
print(f"allocated at most {torch.cuda.max_memory_allocated() // MIB} MiB, "
      f"reserved at most {torch.cuda.max_memory_reserved() // MIB} MiB")
