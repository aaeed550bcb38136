"""A training with a side stream, its statistics and its snapshot, and PyTorch's own tools on both:

    python torch_training.py transformer|dlrm FOLDER

The same program for every allocator. It goes on to what PyTorch's allocator promises: pools, graphs, live
allocations, out of memory. Prints what was measured as one line of JSON; FOLDER gets the snapshot, and the names of the
statistics.
"""

import json
import pathlib
import pickle
import sys

import torch
from torch.cuda import _memory_viz as viz
from checks import capture_two_graphs, check, check_replays
from trainings import train_dlrm, train_transformer

STEPS = 20
MIB = 1 << 20


def check_statistics_are_the_snapshot():
    statistics = torch.cuda.memory_stats()
    segments = [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == 0]
    blocks = [block for segment in segments for block in segment["blocks"]]
    live = [block for block in blocks if block["state"] == "active_allocated"]
    for name, value in [
        ("reserved_bytes", sum(segment["total_size"] for segment in segments)),
        ("allocated_bytes", sum(block["size"] for block in live)),
        ("requested_bytes", sum(block["requested_size"] for block in live)),
        ("allocation", len(live)),
        ("segment", len(segments)),
    ]:
        seen = statistics[f"{name}.all.current"]
        check(seen == value, f"{name} is {seen} in the statistics and {value} in the snapshot")
        check(statistics[f"{name}.all.peak"] >= seen, f"the peak of {name}")
    for segment in segments:
        check(sum(block["size"] for block in segment["blocks"]) == segment["total_size"], "blocks tile segments")
        address = segment["address"]
        for block in segment["blocks"]:
            check(block["address"] == address, "blocks are in order")
            address += block["size"]


def check_history(snapshot, source):
    """Checks that a walk through the history ends with the live blocks of the snapshot."""
    live = {}
    for entry in snapshot["device_traces"][0]:
        if entry["action"] == "alloc":
            check(entry["addr"] not in live, "an address is given out once")
            live[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_requested":
            check(live.pop(entry["addr"], None) == entry["size"], "what is freed was allocated")
    blocks = {block["address"]: block["requested_size"] for segment in snapshot["segments"] if segment["device"] == 0
              for block in segment["blocks"] if block["state"] == "active_allocated"}
    check({address: blocks.get(address) for address in live} == live, "the history ends at the snapshot")
    frames = [entry.get("frames", []) for entry in snapshot["device_traces"][0] if entry["action"] == "alloc"]
    # Allocations of the backward pass have no Python frames.
    named = sum(any(frame["filename"].endswith(source) for frame in stack) for stack in frames)
    check(named > 0, f"allocations name {source}")
    return {"allocations": len(frames), "with_a_frame": named}


def check_tools(path):
    """Runs torch.cuda._memory_viz on a snapshot's file."""
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    check("total_reserved" in viz.segsum(snapshot), "segsum")
    check("alloc" in viz.trace(snapshot), "trace")
    for plot in (viz.trace_plot, viz.segment_plot):
        check("<html" in plot(snapshot).lower() or "<!doctype" in plot(snapshot).lower(), plot.__name__)
    check("Allocated memory" in torch.cuda.memory_summary(), "memory_summary")


def check_pools_and_graphs():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        held = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    check(pool.use_count() == 1, "one uses the pool")
    check(sum(segment["total_size"] for segment in pool.snapshot()) >= held.nbytes, "the pool has its memory")
    check(torch._C._cuda_checkPoolLiveAllocations(0, pool.id, {held.data_ptr()}), "the pool's live allocations")
    del held
    source, graphs, results = capture_two_graphs()
    live = {result.data_ptr() for result in results}
    check(torch._C._cuda_checkPoolLiveAllocations(0, graphs[0].pool(), live), "what is live of the graphs' pool")
    check_replays(source, graphs, results)


def check_out_of_memory():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: seen.append(arguments))
    before = torch.cuda.memory_stats()["num_ooms"]
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(2 * total, dtype=torch.uint8, device="cuda")
        check(False, "twice the GPU's memory is refused")
    except torch.OutOfMemoryError as error:
        check("CUDA out of memory" in str(error), "the message begins as PyTorch's")
    # PyTorch's own allocator reports the bytes of the segment that it requested.
    check(len(seen) == 1 and 0 <= seen[0][1] - 2 * total < 2 * MIB, f"observers are told once: {seen}")
    check(torch.cuda.memory_stats()["num_ooms"] == before + 1, "it is counted")
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.5)
    check(torch.cuda.get_per_process_memory_fraction() == 0.5, "the fraction")
    try:
        torch.empty(int(0.6 * total), dtype=torch.uint8, device="cuda")
        check(False, "more than the fraction is refused")
    except torch.OutOfMemoryError:
        pass
    torch.cuda.set_per_process_memory_fraction(1.0)


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    torch.backends.cuda.enable_cudnn_sdp(False)  # cuDNN cannot run on the virtual runtime
    torch.manual_seed(1)
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    steps = train_transformer("cuda") if name == "transformer" else train_dlrm("cuda", copy=torch.cuda.Stream())
    for _ in range(STEPS):
        next(steps)
    torch.cuda.synchronize()
    check_statistics_are_the_snapshot()
    path = folder / f"{name}.pickle"
    torch.cuda.memory._dump_snapshot(str(path))
    history = check_history(torch.cuda.memory._snapshot(), "trainings.py")
    torch.cuda.memory._record_memory_history(enabled=None)
    check_tools(path)
    statistics = torch.cuda.memory_stats()
    peaks = {what: statistics[f"{what}_bytes.all.peak"] for what in ("requested", "allocated", "reserved")}
    (folder / "names.txt").write_text("\n".join(key for key in statistics if "private_pools" not in key) + "\n")
    check_pools_and_graphs()
    check_out_of_memory()
    check_statistics_are_the_snapshot()
    del steps
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    check(torch.cuda.max_memory_reserved() == torch.cuda.memory_reserved(), "peaks are reset")
    print(json.dumps({"backend": torch.cuda.get_allocator_backend(), **history, **peaks}))


if __name__ == "__main__":
    main()
