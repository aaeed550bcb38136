"""Tests Millrace through PyTorch's hooks for pluggable allocators: streams, pools and graphs."""

import torch

import millrace
from checks import capture_two_graphs, check, check_replays

MIB = 1 << 20


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

    source, graphs, results = capture_two_graphs()
    check_replays(source, graphs, results)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.5)


if __name__ == "__main__":
    main()
