"""pytorch/pytorch#133281 and #163257: allocators that are plugged in have no statistics and no live-allocation checks."""

import sys

import torch
from figures import MIB, buffer, show


def answers(call):
    try:
        call()
        return "yes"
    except (RuntimeError, NotImplementedError):
        return "no"


pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    held = buffer(10 * MIB)
torch.cuda.memory._record_memory_history(max_entries=1000, stacks="python")
more = buffer(MIB)
snapshot = torch.cuda.memory._snapshot()
frames = [entry["frames"] for trace in snapshot["device_traces"] for entry in trace if entry["action"] == "alloc"]
torch.cuda.memory._record_memory_history(enabled=None)
show(
    live_allocation_check=answers(lambda: torch._C._cuda_checkPoolLiveAllocations(0, pool.id, {held.data_ptr()})),
    snapshot_names_this_line="yes" if any(f["filename"] == sys.argv[0] for stack in frames for f in stack) else "no",
)
