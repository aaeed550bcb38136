#!/usr/bin/env python3
"""Checks that every trace of bench/traces agrees with the manifest, and that its replays reserve
what the manifest says:

    test/trace_set/test_set.py PROGRAM

If an allocator was changed on purpose, `bench/traces/make.py --figures` renews the manifest, and `tools/docs-tables.py
trace-set` the page.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "traces"))

import make  # noqa: E402
import trace_set  # noqa: E402

MOST_BYTES, MOST_BYTES_OF_ALL = 100_000, 1_000_000


def differences(path, wanted, found):
    """One line of text for each value that differs, with its place."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted({*wanted, *found}):
            yield from differences(f"{path}.{key}", wanted.get(key), found.get(key))
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for i, pair in enumerate(zip(wanted, found)):
            yield from differences(f"{path}[{i}]", *pair)
    elif wanted != found:
        yield f"{path}: the manifest has {json.dumps(wanted)}, and now it is {json.dumps(found)}"


def problems_of(entry, program):
    name, path = entry["name"], trace_set.FOLDER / entry["file"]
    identity = trace_set.identity(path)
    yield from differences(name, {key: entry[key] for key in identity}, identity)
    if entry["bytes"] > MOST_BYTES:
        yield f"{name}: {entry['bytes']} bytes, at most {MOST_BYTES}"
    log = trace_set.trace_format.read(path)
    if not log.complete or log.warnings:
        yield f"{name}: {log.warnings}"
    devices = trace_set.figures(program, path)
    yield from differences(f"{name}.devices", entry["devices"], devices)
    for device in devices:
        yield from impossible(name, device)
    # The recorded allocator was PyTorch's own, or made the same decisions. A replay of its trace
    # repeats them.
    for device in devices:
        ran = entry.get("pytorch_reserved_bytes", device.get("recorded_reserved_bytes"))
        torch = device["allocators"]["torch"]["reserved_bytes"]
        if torch != ran:
            yield f"{name}: torch reserves {torch} bytes in a replay, and reserved {ran} as the program ran"
    worse = any(trace_set.millrace_exceeds_torch(each) for each in devices)
    if worse != ("known" in entry):
        says = "has no `known`" if worse else "has `known`"
        yield f"{name}: millrace reserves {'more' if worse else 'no more'} than torch, and the manifest {says}"


def impossible(name, device):
    """Figures that are impossible for any allocator."""
    live = device["live_bytes"]
    if not live <= device["packed_bytes"]:
        yield f"{name}: packed in less than what is live"
    for allocator, figures in device["allocators"].items():
        steps = (live, figures["rounded_bound_bytes"], figures["ordered_bound_bytes"], figures["reserved_bytes"])
        if list(steps) != sorted(steps):
            yield f"{name}: {allocator}: bounds and reserved bytes do not ascend: {steps}"
    if not live <= device["driver"]["least_bytes"] <= device["driver"]["most_bytes"]:
        yield f"{name}: the driver reserves less than what is live"


def problems(program):
    entries = trace_set.load()["traces"]
    files = {path.name for path in trace_set.FOLDER.glob("*.gz")}
    if {entry["file"] for entry in entries} != files:
        yield f"files {sorted(files)} and manifest do not have the same traces"
    if [(entry["name"], entry["command"]) for entry in entries] != [each[:2] for each in make.TRACES]:
        yield "make.py and the manifest do not have the same traces and commands"
    if sum(entry["bytes"] for entry in entries) > MOST_BYTES_OF_ALL:
        yield f"the set has more than {MOST_BYTES_OF_ALL} bytes"
    for entry in entries:
        yield from problems_of(entry, program)


def main():
    found = list(problems(sys.argv[1]))
    for problem in found:
        print(problem)
    if found:
        print("if an allocator was changed on purpose: bench/traces/make.py --figures, tools/docs-tables.py trace-set")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
