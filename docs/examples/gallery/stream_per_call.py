"""triton-lang/triton#11720: a benchmark makes a stream for each call that it times."""

import torch
from figures import MIB, buffer, show, use

x, y = buffer(64 * MIB), buffer(64 * MIB)
for call in range(200):
    with torch.cuda.stream(torch.cuda.Stream()):
        out = buffer(64 * MIB)
        out.copy_(x)
        use(out)
    torch.cuda.synchronize()
    del out
show()
