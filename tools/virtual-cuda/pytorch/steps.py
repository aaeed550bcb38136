"""Checks PyTorch on the virtual CUDA runtime: features that need no computing kernels, and two trainings.

    millrace run --allocator own --virtual SCHEDULE,gpus=2 -- python steps.py FOLDER

Copies and fills by the driver take place and are checked. Kernels compute nothing, so losses have no meaning.
The trainings take the same memory as on a GPU. Snapshots go to FOLDER.
"""

import pathlib
import sys

import torch

from checks import capture_two_graphs, check, check_replays
from trainings import train_dlrm, train_transformer


def devices():
    check(torch.cuda.is_available(), "CUDA is available")
    check(torch.cuda.device_count() == 2, "there are two GPUs")
    names = {torch.cuda.get_device_name(i) for i in range(2)}
    return f"{torch.cuda.device_count()} x {names.pop()}"


def copies():
    source = torch.arange(1 << 16, dtype=torch.int32)
    first = source.to("cuda:0")
    check(torch.equal(first.clone().cpu(), source), "a copy to the GPU, on it and back")
    check(torch.equal(first.to("cuda:1").cpu(), source), "a copy to another GPU")
    pinned = source.pin_memory()
    check(pinned.is_pinned(), "pinned memory")
    check(torch.equal(pinned.to("cuda:0", non_blocking=True).cpu(), source), "a copy from pinned memory")
    return "to, from, on and between GPUs"


def streams_and_events():
    side = torch.cuda.Stream()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    data = torch.arange(1 << 20, dtype=torch.int32).to("cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        start.record()
        copy = torch.empty_like(data)
        copy.copy_(data, non_blocking=True)
        end.record()
    torch.cuda.current_stream().wait_event(end)
    copy.record_stream(torch.cuda.current_stream())
    check(torch.equal(copy.cpu(), data.cpu()), "an event orders the streams")
    end.synchronize()
    check(end.query() and start.elapsed_time(end) >= 0, "events have times")
    address = copy.data_ptr()
    del copy
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        check(torch.empty_like(data).data_ptr() == address, "recorded memory comes back")
    return "events, waits, record_stream"


def pools_and_graphs():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        held = torch.empty(1 << 22, device="cuda")
    check(sum(segment["total_size"] for segment in pool.snapshot()) >= held.nbytes, "a memory pool")
    source, graphs, results = capture_two_graphs()
    check(not results[1].is_cpu and graphs[0].pool() == graphs[1].pool(), "graphs share a pool")
    check_replays(source, graphs, results)
    return "MemPool, two graphs in one pool"


def statistics():
    torch.cuda.empty_cache()
    held = [torch.empty(1 << i, device="cuda") for i in range(10, 26, 3)]
    segments = [s for s in torch.cuda.memory_snapshot() if s["device"] == 0]
    check(sum(s["total_size"] for s in segments) == torch.cuda.memory_reserved(), "segments are what is reserved")
    check(sum(s["allocated_size"] for s in segments) == torch.cuda.memory_allocated(), "blocks are what is allocated")
    free, total = torch.cuda.mem_get_info()
    check(total - free >= torch.cuda.memory_reserved(), "the driver's figures hold PyTorch's")
    check(torch.cuda.memory_allocated() >= sum(each.nbytes for each in held), "what is held is allocated")
    return f"{torch.cuda.memory_allocated()} of {torch.cuda.memory_reserved()} bytes reserved"


def training(name, train, folder):
    """Trains ten steps, prints their peak, and writes a snapshot that begins with the first allocation."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    steps = train("cuda")
    for _ in range(10):
        next(steps)
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(str(folder / f"{name}.pickle"))
    torch.cuda.memory._record_memory_history(enabled=None)
    print(f"memory {name}: 10 steps, peak {torch.cuda.max_memory_allocated()} bytes allocated,"
          f" {torch.cuda.max_memory_reserved()} reserved", flush=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    # cuDNN contains a CUDA runtime of its own, which uses undocumented functions of the driver.
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.manual_seed(1)
    for step in (devices, copies, streams_and_events, pools_and_graphs, statistics):
        print(f"{step.__name__}: {step()}", flush=True)
    training("transformer", train_transformer, folder)
    training("dlrm", train_dlrm, folder)


if __name__ == "__main__":
    main()
