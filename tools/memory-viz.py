#!/usr/bin/env python3
"""Whether PyTorch's own script reads a snapshot that Millrace wrote, and finds its figures.

    tools/memory-viz.py SNAPSHOT MEMORY_VIZ.py [MEMORY_VIZ.py...]

MEMORY_VIZ.py is torch/cuda/_memory_viz.py of any version of PyTorch; it needs nothing else of
PyTorch. Not a part of CI. Ends with 1 if a version does not read the file, or finds other figures.
"""

import importlib.util
import pickle
import sys


def load(path, number):
    spec = importlib.util.spec_from_file_location(f"memory_viz_{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def require(holds, what):
    if not holds:
        raise SystemExit(f"memory-viz.py: {what}")


def check(viz, snapshot):
    """What each of the script's views of a snapshot has to say."""
    segments = snapshot["segments"]
    blocks = [block for segment in segments for block in segment["blocks"]]
    live = [block for block in blocks if block["state"] == "active_allocated"]
    summary = viz.segsum(snapshot)
    reserved = viz.Bytes(sum(segment["total_size"] for segment in segments))
    allocated = viz.Bytes(sum(block["requested_size"] for block in live))
    require(f"segments: {len(segments)}\n" in summary, "segsum finds another number of segments")
    require(f"total_reserved: {reserved}\n" in summary, "segsum finds other reserved bytes")
    require(f"total_allocated: {allocated}\n" in summary, "segsum finds other allocated bytes")
    lines = viz.trace(snapshot).splitlines()
    events = sum(len(trace) for trace in snapshot["device_traces"])
    require(len(lines) >= events, "trace shows fewer events than there are")
    require(len(viz.trace_plot(snapshot)) > events, "trace_plot is empty")
    require(len(viz.segment_plot(snapshot)) > len(blocks), "segment_plot is empty")
    return len(segments), len(live), events


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    with open(sys.argv[1], "rb") as file:
        snapshot = pickle.load(file)
    for number, path in enumerate(sys.argv[2:]):
        segments, live, events = check(load(path, number), snapshot)
        print(f"{path}: {segments} segments, {live} live blocks, {events} events: figures agree")


main()
