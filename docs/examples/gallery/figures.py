"""What the programs of the gallery have in common: they print what they measured, as one line of JSON."""

import json

import torch

MIB = 1 << 20
GIB = 1 << 30


def buffer(size):
    """Bytes of GPU memory on the current stream."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def use(tensor):
    """Work of the current stream on all of a tensor: a kernel that reads and writes it."""
    tensor.add_(1)


def show(**more):
    """Prints peaks from PyTorch's own statistics, and what else a program measured."""
    torch.cuda.synchronize()
    statistics = torch.cuda.memory_stats()
    print(json.dumps({
        "allocated": statistics["allocated_bytes.all.peak"],
        "reserved": statistics["reserved_bytes.all.peak"],
        "device_allocations": statistics["num_device_alloc"],
        **more,
    }))
