"""Millrace through the hooks of PyTorch's pluggable allocators: streams, pools and graphs."""

import torch

import millrace

MIB = 1 << 20


def check(condition, what):
    if not condition:
        raise SystemExit(f"failed: {what}")


def main():
    main_stream, side = torch.cuda.current_stream(), torch.cuda.Stream()
    for _ in range(4):
        with torch.cuda.stream(side):
            batch = torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
        main_stream.wait_stream(side)
        batch.record_stream(main_stream)
        del batch
        torch.cuda.synchronize()
    check(millrace.statistics()["bytes"]["reserved"]["peak"] <= 64 * MIB, "freed memory is used again")

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
    for value in (1, 2):
        source.copy_(torch.full((1 << 12,), value, dtype=torch.int32))
        for graph in graphs:
            graph.replay()
        torch.cuda.synchronize()
        check(all(bool((result.cpu() == value).all()) for result in results), "a graph is replayed")
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.5)


if __name__ == "__main__":
    main()
