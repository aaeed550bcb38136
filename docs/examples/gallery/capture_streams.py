"""sgl-project/sglang#33220: graphs of many batch sizes share a pool, and each is captured on its own stream."""

import torch
from figures import MIB, buffer, show, use

pool = torch.cuda.graph_pool_handle()
source = buffer(64 * MIB)
graphs = []
for batch in range(16, 0, -1):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # warm up
        use(buffer(4 * MIB))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        for layer in range(4):
            hidden = buffer(batch * 4 * MIB)
            hidden.copy_(source[: hidden.numel()])
            use(hidden)
        del hidden
    graphs.append(graph)
for graph in graphs:
    graph.replay()
show()
