"""Functions for scripts that check PyTorch on the virtual CUDA runtime."""

import torch


def check(condition, what):
    if not condition:
        raise SystemExit(f"failed: {what}")


def capture_two_graphs():
    """Captures two graphs in one pool that copy from one tensor. Returns the tensor, the graphs and their results."""
    source = torch.arange(1 << 12, dtype=torch.int32).to("cuda")
    torch.cuda.synchronize()
    graphs, results = [], []
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=graphs[0].pool() if graphs else None):
            passing = torch.empty_like(source).copy_(source)
            results.append(torch.empty_like(source).copy_(passing))
            del passing
        graphs.append(graph)
    return source, graphs, results


def check_replays(source, graphs, results):
    for value in (1, 2):
        source.copy_(torch.full((1 << 12,), value, dtype=torch.int32))
        for graph in graphs:
            graph.replay()
        torch.cuda.synchronize()
        check(all(bool((result.cpu() == value).all()) for result in results), "a graph is replayed")
