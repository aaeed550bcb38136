#!/usr/bin/env python3
"""Writes a memory snapshot in PyTorch's format, or an RMM log, for a random program of any length:

    bench/make_snapshot.py --events 1000000 snapshot.pickle
    bench/make_snapshot.py --events 1000000 --rmm log.csv

The program trains. Each step allocates on several streams and frees most of its blocks; some blocks
live for many steps. Its allocator makes PyTorch's decisions (best fit in the pool of a stream,
segments of 2 MiB and 20 MiB, remainders of up to 1 MiB), so that a replay can follow it.
"""

import argparse
import bisect
import pickle
import random

MIB = 1 << 20


def round_up(size, unit):
    return -(-size // unit) * unit


class Block:
    __slots__ = ("address", "size", "requested", "state", "segment", "before", "after", "frames")

    def __init__(self, address, size, segment, before=None, after=None):
        self.address, self.size, self.segment = address, size, segment
        self.before, self.after = before, after
        self.requested, self.state, self.frames = 0, "inactive", []


class Segment:
    __slots__ = ("address", "size", "stream", "pool", "large", "first", "frames")


class Allocator:
    """Makes the decisions of PyTorch's caching allocator on one device, and records its trace."""

    def __init__(self, device, options, clock):
        self.device, self.options, self.clock = device, options, clock
        self.next_address = (1 << 40) + device * (1 << 42)
        self.segments = {}
        self.free = {}  # by (large, stream, pool): sorted list of (size, address)
        self.blocks = {}
        self.trace = []
        self.reserved = 0

    def note(self, action, address, size, stream, pool, frames):
        entry = {"action": action, "addr": address, "size": size, "stream": stream, "time_us": self.clock()}
        if action == "oom":
            entry["device_free"] = entry.pop("addr")
        if self.options.pool_ids:
            entry["pool_id"] = pool
        if frames:
            entry["frames"] = frames
        self.trace.append(entry)

    def list_of(self, block):
        segment = block.segment
        return self.free.setdefault((segment.large, segment.stream, segment.pool), [])

    def put(self, block):
        bisect.insort(self.list_of(block), (block.size, block.address))

    def take(self, block):
        free = self.list_of(block)
        del free[bisect.bisect_left(free, (block.size, block.address))]

    def grow(self, rounded, large, stream, pool, frames):
        size = 2 * MIB if not large else 20 * MIB if rounded < 10 * MIB else round_up(rounded, 2 * MIB)
        if self.reserved + size > self.options.device_bytes:
            self.empty_cache(stream)
        if self.reserved + size > self.options.device_bytes:
            self.note("oom", self.options.device_bytes - self.reserved, rounded, stream, pool, frames)
            return None
        segment = Segment()
        segment.address, segment.size, segment.stream, segment.pool = self.next_address, size, stream, pool
        segment.large, segment.frames = large, frames
        self.next_address += size + 2 * MIB
        segment.first = Block(segment.address, size, segment)
        self.segments[segment.address] = segment
        self.blocks[segment.address] = segment.first
        self.reserved += size
        self.note("segment_alloc", segment.address, size, stream, pool, frames)
        return segment.first

    def empty_cache(self, stream):
        for segment in [s for s in self.segments.values() if s.first.state == "inactive" and s.first.after is None]:
            self.take(segment.first)
            del self.segments[segment.address], self.blocks[segment.address]
            self.reserved -= segment.size
            self.note("segment_free", segment.address, segment.size, stream, segment.pool, [])

    def allocate(self, requested, stream, pool, frames):
        rounded = max(512, round_up(requested, 512))
        large = rounded > MIB
        free = self.free.get((large, stream, pool), [])
        at = bisect.bisect_left(free, (rounded, 0))
        if at < len(free):
            block = self.blocks[free[at][1]]
            self.take(block)
        else:
            block = self.grow(rounded, large, stream, pool, frames)
            if block is None:
                return None
        if block.size - rounded >= (MIB + 1 if large else 512):
            rest = Block(block.address + rounded, block.size - rounded, block.segment, block, block.after)
            if block.after:
                block.after.before = rest
            block.after, block.size = rest, rounded
            self.blocks[rest.address] = rest
            self.put(rest)
        block.state, block.requested, block.frames = "active_allocated", requested, frames
        self.note("alloc", block.address, requested, stream, pool, frames)
        return block

    def request_free(self, block, frames):
        segment = block.segment
        self.note("free_requested", block.address, block.requested, segment.stream, segment.pool, frames)
        block.state = "active_pending_free"

    def complete_free(self, block, frames):
        segment = block.segment
        self.note("free_completed", block.address, block.requested, segment.stream, segment.pool, frames)
        block.state = "inactive"
        if block.after and block.after.state == "inactive":
            self.join(block, block.after)
        if block.before and block.before.state == "inactive":
            self.take(block.before)
            before = block.before
            self.put(block)  # join removes it again
            self.join(before, block)
            block = before
        self.put(block)

    def join(self, block, after):
        self.take(after)
        del self.blocks[after.address]
        block.size += after.size
        block.after = after.after
        if after.after:
            after.after.before = block

    def snapshot_segments(self):
        for segment in self.segments.values():
            blocks, block = [], segment.first
            while block:
                blocks.append({"address": block.address, "size": block.size, "requested_size": block.requested,
                               "state": block.state, "frames": block.frames})
                block = block.after
            used = sum(b["size"] for b in blocks if b["state"] != "inactive")
            yield {"device": self.device, "address": segment.address, "total_size": segment.size,
                   "stream": segment.stream, "segment_type": "large" if segment.large else "small",
                   "segment_pool_id": segment.pool, "is_expandable": False, "frames": segment.frames,
                   "allocated_size": used, "active_size": used, "requested_size": used, "blocks": blocks}


def stacks(count, depth, rng):
    """Makes stacks that share their outer frames, as the stacks of one program do."""
    outer = [{"filename": "/home/user/train.py", "line": 10 + i, "name": f"step_{i}"} for i in range(3)]
    library = [{"filename": "/usr/lib/python3/site-packages/torch/nn/modules/module.py", "line": 1500 + i,
                "name": "_call_impl"} for i in range(depth)]
    leaves = [{"filename": f"/home/user/model_{i % 37}.py", "line": i, "name": f"layer_{i % 211}"} for i in range(count)]
    return [[library[rng.randrange(depth)], leaf] + rng.sample(library, min(depth, max(0, depth - 5))) + outer
            for leaf in leaves]


def run(options):
    rng = random.Random(options.seed)
    time = [1_700_000_000_000_000]

    def clock():
        time[0] += rng.randrange(1, 9)
        return time[0]

    allocators = [Allocator(device, options, clock) for device in range(options.devices)]
    known = stacks(options.stacks, options.depth, rng) if options.stacks else [[]]
    streams = [0] + [0x7F0000001000 + i * 0x100 for i in range(options.streams - 1)]
    pools = [(0, 0)] + [(0, 1 + i) for i in range(options.pools)]
    live = [[] for _ in allocators]
    pending = [[] for _ in allocators]
    sizes = [int(512 * 1.25 ** i) for i in range(50)]
    left = options.events
    while left > 0:
        device = rng.randrange(options.devices)
        allocator, mine, waiting = allocators[device], live[device], pending[device]
        events = len(allocator.trace)
        grows = len(mine) < options.live
        if grows or rng.random() < 0.45:
            size = rng.choice(sizes) + rng.randrange(256)
            stream = streams[0] if rng.random() < 0.6 else rng.choice(streams)
            block = allocator.allocate(size, stream, pools[0] if rng.random() < 0.9 else rng.choice(pools),
                                       rng.choice(known))
            if block:
                mine.append(block)
            elif options.stop_at_oom:
                break
            else:
                allocator.options.device_bytes *= 2
        else:
            # Young blocks are usually freed first, but blocks of any age may be freed.
            at = len(mine) - 1 - int(min(rng.expovariate(1 / 40), len(mine) - 1))
            mine[at], mine[-1] = mine[-1], mine[at]
            block = mine.pop()
            allocator.request_free(block, [])
            if block.segment.stream and rng.random() < 0.3:
                waiting.append(block)
            else:
                allocator.complete_free(block, [])
            while waiting and (len(waiting) > 20 or rng.random() < 0.2):
                allocator.complete_free(waiting.pop(0), [])
        left -= len(allocator.trace) - events
    return allocators


def torch_snapshot(allocators, options):
    traces = [a.trace[len(a.trace) // 3:] if options.wrapped else a.trace for a in allocators]
    return {"segments": [s for a in allocators for s in a.snapshot_segments()], "device_traces": traces,
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
                                   "garbage_collection_threshold": 0.0, "expandable_segments": False},
            "external_annotations": []}


def write_rmm(allocators, path):
    names = {"alloc": "allocate", "free_requested": "free", "oom": "allocate failure"}
    with open(path, "w", encoding="ascii") as out:
        out.write("Thread,Time,Action,Pointer,Size,Stream\n")
        for event in allocators[0].trace:
            if event["action"] not in names:
                continue
            at = event["time_us"] % 86_400_000_000
            clock = f"{at // 3_600_000_000:02}:{at // 60_000_000 % 60:02}:{at // 1_000_000 % 60:02}.{at % 1_000_000:06}"
            out.write(f"1,{clock},{names[event['action']]},{event.get('addr', 0):#x},{event['size']},"
                      f"{event['stream']:#x}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--events", type=int, default=100_000, help="of all devices together")
    parser.add_argument("--live", type=int, default=2000, help="blocks of a device that are live at once")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--pools", type=int, default=0, help="private pools beside the default one")
    parser.add_argument("--stacks", type=int, default=2000, help="different stacks; 0: none is recorded")
    parser.add_argument("--depth", type=int, default=20, help="frames of a stack")
    parser.add_argument("--protocol", type=int, default=4, help="of the pickle")
    parser.add_argument("--pool-ids", action="store_true", help="events have pool_id, as since 2.13")
    parser.add_argument("--wrapped", action="store_true", help="the first third of each trace is lost")
    parser.add_argument("--device-bytes", type=int, default=1 << 60)
    parser.add_argument("--stop-at-oom", action="store_true")
    parser.add_argument("--rmm", action="store_true", help="an RMM log of the first device instead")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    allocators = run(options)
    if options.rmm:
        write_rmm(allocators, options.file)
        return
    with open(options.file, "wb") as out:
        pickle.dump(torch_snapshot(allocators, options), out, protocol=options.protocol)


if __name__ == "__main__":
    main()
