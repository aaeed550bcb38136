"""pytorch/pytorch#159674, vllm-project/vllm#49151: a pool does not shrink while it is in use."""

import torch
from figures import GIB, MIB, buffer, show, use

pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    for size in range(1, 13):  # weights are loaded in pieces of other sizes each time
        pieces = [buffer(size * 40 * MIB) for _ in range(4)]
        for piece in pieces:
            use(piece)
        torch.cuda.synchronize()
        del pieces, piece
        torch.cuda.empty_cache()
    in_use = torch.cuda.memory_reserved()
show(reserved_by_an_empty_pool_in_use=in_use)
