#!/usr/bin/env python3
"""Checks that PyTorch's own script reads Millrace's snapshots and finds the same figures.

    tools/memory-viz.py [--build build/dev] [--folder build/memory-viz] [--versions 2.4.1,2.14.1]
    tools/memory-viz.py --snapshot FILE [--folder ...] [--versions ...]

Gets torch/cuda/_memory_viz.py of each version from PyTorch's package (60 to 130 MB each; only this
file is kept). The programs footprint, train, replay and run and the library of a build write
snapshots. Runs the script's commands and functions on them, and compares segments, bytes and events
with the statistics of the run. It is not a part of CI, because it needs a package index. Ends with
1 at the first difference. With --snapshot it checks one file, without statistics.
"""

import argparse
import base64
import contextlib
import ctypes
import importlib.util
import io
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import zipfile

PLATFORMS = ["macosx_14_0_arm64", "macosx_11_0_arm64"]  # the smallest packages with this file
STAND_IN = "#!/bin/sh\nexec cat\n"  # replaces flamegraph.pl, which the script would download


def require(holds, what):
    if not holds:
        raise SystemExit(f"memory-viz.py: {what}")


def fetch(version, folder):
    """Returns the script of a version of PyTorch."""
    script = folder / version / "_memory_viz.py"
    if script.exists():
        return script
    wheels = folder / "wheels"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version",
               "3.12", "-d", str(wheels), f"torch=={version}"]
    subprocess.run(command + [word for name in PLATFORMS for word in ("--platform", name)], check=True)
    script.parent.mkdir(parents=True, exist_ok=True)
    for wheel in wheels.glob(f"torch-{version}-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            script.write_bytes(archive.read("torch/cuda/_memory_viz.py"))
        wheel.unlink()
    return script


def figures_of(gauges, counts=None):
    """The figures of an allocator's statistics that its snapshot must also have."""
    figures = {"reserved": gauges["reserved"]["current"], "peak": gauges["reserved"]["peak"],
               "live": gauges["requested"]["current"]}
    if counts is not None:
        figures["allocations"] = counts["allocations"]
    return figures


def write_with_library(library, file):
    """Allocates by the C interface with a recorded history. Runs in its own process."""
    loaded = ctypes.CDLL(library)
    loaded.millrace_malloc.restype = ctypes.c_void_p
    loaded.millrace_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    loaded.millrace_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    loaded.millrace_record_history.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_uint]
    require(loaded.millrace_record_history(0, 100_000, 16) == 0, "no history")
    require(loaded.millrace_annotate(0, b"warm-up") == 0, "no annotation")
    live = []
    for i in range(2500):
        if i == 100:
            loaded.millrace_annotate(0, b"steady")
        live.append(loaded.millrace_malloc(1 + (i * 7919) % 3_000_000, 0, None))
        if len(live) > 20:
            loaded.millrace_free(live.pop((i * 31) % 20), 0, 0, None)
    text = ctypes.create_string_buffer(1 << 20)
    loaded.millrace_statistics_json(0, text, ctypes.c_size_t(len(text)), None)
    require(loaded.millrace_snapshot(0, os.fsencode(file)) == 0, "the library wrote no snapshot")
    statistics = json.loads(text.value)
    print(json.dumps(figures_of(statistics["bytes"], statistics["counts"])))


class Writers:
    """The sources of snapshots in a build. Each makes a file and the figures that it must have."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.millrace = build / "bin" / "millrace"

    def call(self, *words):
        result = subprocess.run([str(self.millrace), *map(str, words)], check=True, stdout=subprocess.PIPE)
        return json.loads(result.stdout) if result.stdout.startswith(b"{") else None

    def all(self):
        run = ["--workload", "sparse_data_dist_base", "--copy", "side-stream", "--seeds", 1, "--steps", 8, "--format",
               "json"]
        trace = self.folder / "footprint.trace"
        for allocator in ("torch", "millrace"):
            file = self.folder / f"footprint-{allocator}.pickle"
            table = self.call("footprint", *run, "--allocator", allocator, "--snapshot", file, "--record", trace)
            yield file, {"peak": table["runs"][0]["peak_reserved_bytes"]}
        file = self.folder / "replay.pickle"
        replays = self.call("replay", "--allocator", "millrace", "--snapshot", file, "--format", "json", trace)
        statistics = replays["files"][0]["replays"][0]["statistics"]
        yield file, figures_of(statistics["bytes"], statistics["counts"])
        file = self.folder / "train.pickle"
        result = self.call("train", "--data", "synthetic", "--steps", 20, "--pipeline", "base", "--snapshot", file,
                           "--json", "-")
        yield file, {"peak": result["memory"]["bytes"]["reserved"]["peak"]}
        yield from self.run()
        yield from self.library()

    def run(self):
        program = self.build / "bin" / "interpose_program"
        if not program.exists():
            print("not there, and left out: run (the target interpose_program)")
            return
        file, report = self.folder / "run.pickle", self.folder / "run.json"
        file.unlink(missing_ok=True)
        subprocess.run([str(self.millrace), "run", "--virtual", "instant,memory=2GiB", "--snapshot", str(file), "--",
                        str(program), "data", "7"], check=True, env=os.environ | {"MILLRACE_RUN_REPORT": str(report)})
        gpu = json.loads(report.read_text())["gpus"][0]
        yield file, figures_of(gpu["bytes"], gpu["counts"]) | {"stacks": True}

    def library(self):
        library = next(iter(sorted((self.build / "lib").glob("libmillrace.so*")) or
                            sorted((self.build / "allocator").glob("libmillrace.so*"))), None)
        if library is None:
            print("not there, and left out: the library (the target millrace_shared)")
            return
        file = self.folder / "library.pickle"
        result = subprocess.run([str(self.millrace), "run", "--allocator", "own", "--virtual", "instant", "--",
                                 sys.executable, __file__, "--write-with", str(library), str(file)], check=True,
                                stdout=subprocess.PIPE, env=os.environ | {"MILLRACE_VIRTUAL_REPORT": ""})
        yield file, json.loads(result.stdout) | {"stacks": True, "marks": ["warm-up", "steady"]}


def figures_in(snapshot):
    """The same figures from the segments, blocks and events of a snapshot."""
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    found = {"reserved": sum(segment["total_size"] for segment in snapshot["segments"]),
             "live": sum(block["requested_size"] for block in blocks if block["state"] == "active_allocated"),
             "allocations": 0, "peak": 0}
    now = 0
    for trace in snapshot["device_traces"]:
        for event in trace:
            found["allocations"] += event["action"] == "alloc"
            now += event["size"] * (event["action"] in ("segment_alloc", "segment_map"))
            now -= event["size"] * (event["action"] in ("segment_free", "segment_unmap"))
            found["peak"] = max(found["peak"], now)
    require(not any(snapshot["device_traces"]) or now == found["reserved"],
            f"the events lead to {now} reserved bytes, and {found['reserved']} are there")
    allocations = [event for trace in snapshot["device_traces"] for event in trace if event["action"] == "alloc"]
    found["stacks"] = bool(allocations) and all(event["frames"] for event in allocations)
    found["marks"] = [mark["name"] for mark in snapshot["external_annotations"] if mark["stage"] == "START"]
    return found


class Viz:
    """PyTorch's script of one version."""

    def __init__(self, version, script, folder):
        self.version, self.script, self.folder = version, script, folder
        spec = importlib.util.spec_from_file_location(f"memory_viz_{version.replace('.', '_')}", script)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        graph = folder / ".cache" / "flamegraph.pl"
        graph.parent.mkdir(exist_ok=True)
        graph.write_text(STAND_IN)
        graph.chmod(0o755)

    def command(self, *words):
        result = subprocess.run([sys.executable, str(self.script), *map(str, words)], cwd=self.folder,
                                env=os.environ | {"HOME": str(self.folder)}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        require(result.returncode == 0, f"{self.version}: {' '.join(map(str, words))}: {result.stderr[-500:]}")
        return result.stdout

    def check(self, file, snapshot):
        self.check_stats(file, snapshot)
        self.check_trace(file, snapshot)
        self.check_plots(file, snapshot)
        self.check_graphs(snapshot)

    def check_stats(self, file, snapshot):
        text, found = self.command("stats", file), figures_in(snapshot)
        size = self.module.Bytes
        for line in (f"segments: {len(snapshot['segments'])}\n", f"total_reserved: {size(found['reserved'])}\n",
                     f"total_allocated: {size(found['live'])}\n"):
            require(line in text, f"{self.version}: stats does not say {line.strip()!r}")

    def check_trace(self, file, snapshot):
        text = self.command("trace", file)
        for device, trace in enumerate(snapshot["device_traces"]):
            if trace:
                require(f"Device {device} ---" in text and f"{len(trace)} entries" in text,
                        f"{self.version}: trace finds other events")
        allocations = figures_in(snapshot)["allocations"]
        shown = len(re.findall(r"^\w+ = (?!cudaMalloc)", text, re.MULTILINE))
        require(shown == allocations, f"{self.version}: trace shows {shown} of {allocations} allocations")

    def check_plots(self, file, snapshot):
        for words in (["trace_plot"], ["trace_plot", "-s"], ["segment_plot"]):
            page = self.folder / "plot.html"
            page.unlink(missing_ok=True)
            self.command(words[0], file, *words[1:], "-o", page)
            held = re.search(r'"base64": "([^"]+)"', page.read_text())
            require(held and pickle.loads(base64.b64decode(held[1])) == snapshot,
                    f"{self.version}: {words} does not hold the snapshot")

    def check_graphs(self, snapshot):
        """Checks that the flame graphs, and the comparison with an empty snapshot, contain all
        bytes of the segments."""
        segments, same = snapshot["segments"], lambda lines: lines
        with contextlib.redirect_stdout(io.StringIO()):  # compare prints its result
            graphs = {"memory": self.module.memory(snapshot, same), "segments": self.module.segments(snapshot, same),
                      "compare": self.module.compare([], segments, same)}
        total = figures_in(snapshot)["reserved"]
        for name, lines in graphs.items():
            found = sum(int(line.rsplit(" ", 1)[1]) for line in lines.splitlines())
            require(found == total, f"{self.version}: {name} has {found} of {total} bytes")
        live = {frame["name"] for segment in segments for block in segment["blocks"]
                if block["state"] == "active_allocated" for frame in block["frames"][:1]}
        missing = {name for name in live if self.module._frame_filter(name, "") and name not in graphs["memory"]}
        require(not missing, f"{self.version}: memory does not show {missing}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build/dev")
    parser.add_argument("--folder", type=pathlib.Path, default="build/memory-viz")
    parser.add_argument("--versions", default="2.4.1,2.14.1")
    parser.add_argument("--snapshot", type=pathlib.Path)
    parser.add_argument("--write-with", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write_with:
        return write_with_library(*arguments.write_with)
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    scripts = [Viz(version, fetch(version, folder), folder) for version in arguments.versions.split(",")]
    one = arguments.snapshot
    for file, figures in [(one.resolve(), {})] if one else Writers(arguments.build.resolve(), folder).all():
        with open(file, "rb") as opened:
            snapshot = pickle.load(opened)
        found = figures_in(snapshot)
        for name, value in figures.items():
            require(found[name] == value, f"{file.name}: {name} is {found[name]}, and {value} by the statistics")
        for script in scripts:
            script.check(file, snapshot)
        print(f"{file.name}: {len(snapshot['segments'])} segments, {found['reserved']} bytes reserved, {found['live']} live, "
              f"{found['allocations']} allocations: {', '.join(sorted(figures))} agree, and "
              f"{', '.join(script.version for script in scripts)} read it")


main()
