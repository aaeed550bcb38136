#!/usr/bin/env python3
"""Makes a page from the results of tools/gpu-check.sh:  gpu-report.py RESULTS PROFILES

Prints Markdown: the steps, measured figures beside the device profile, the footprint table measured
and modeled, and the comparisons with other allocators. A part whose step did not run is one line.
"""

import json
import pathlib
import sys

GIB = 1 << 30
SCALE = {"GB/s": 1, "TB/s": 1000, "us": 1, "ns": 1e-3, "ms": 1e3}

# Rows: (section and key of the profile, fact, key in the fact's data). A call is a key of
# "call-costs" in microseconds.
BESIDE_THE_PROFILE = [
    ("copy", "host_to_device", "bandwidths", "host_to_device_gb_s"),
    ("copy", "device_to_host", "bandwidths", "device_to_host_gb_s"),
    ("copy", "device_to_device", "bandwidths", "device_to_device_gb_s"),
    ("kernel", "minimum", "device-costs", "empty_kernel_us"),
    ("order", "record_latency", "device-costs", "record_us"),
    ("order", "callback_latency", "callback-latency", "microseconds"),
    ("order", "launch_queue_depth", "launch-queue-depth", "launches"),
    ("host", "allocate_async", "call-costs", "cudaMallocAsync, 1 MiB"),
    ("host", "free_async", "call-costs", "cudaFreeAsync, 1 MiB"),
    ("host", "memory_info", "call-costs", "cudaMemGetInfo"),
    ("host", "stream_id", "call-costs", "cudaStreamGetId"),
    ("host", "capture_status", "call-costs", "cudaStreamIsCapturing"),
    ("host", "record", "call-costs", "cudaEventRecord"),
    ("host", "wait", "call-costs", "cudaStreamWaitEvent"),
    ("host", "query_event", "call-costs", "cudaEventQuery, complete"),
    ("host", "query_stream", "call-costs", "cudaStreamQuery, idle"),
    ("host", "synchronize_event", "call-costs", "cudaEventSynchronize, complete"),
    ("host", "copy", "call-costs", "cudaMemcpyAsync, 4 KiB in"),
    ("host", "fill", "call-costs", "cudaMemsetAsync, 4 KiB"),
    ("host", "launch", "call-costs", "cudaLaunchKernel"),
    ("host", "callback", "call-costs", "cudaLaunchHostFunc"),
]


class Results:
    def __init__(self, folder):
        self.folder = folder

    def document(self, name):
        """The results of a step: its fields, with "result" if it wrote a result. None: the step did
        not run."""
        path = self.folder / f"{name}.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def result(self, name):
        document = self.document(name)
        return document.get("result") if document else None


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"


def steps(results):
    summary = results.document("summary")
    if not summary:
        yield "There is no summary."
        return
    yield f"{summary['device']}, driver {summary['driver']}, {summary['date']}, commit {summary['commit']}."
    yield ""
    yield from table(("step", "status", ""), ((s["name"], s["status"], s["detail"]) for s in summary["steps"]))


def facts_of(results):
    report = results.result("cuda_facts")
    return {fact["id"]: fact for fact in report["facts"]} if report else {}


def beside_the_profile(results, profile):
    facts = facts_of(results)
    rows = []
    for section, key, fact, part in BESIDE_THE_PROFILE:
        modeled = profile.get(section, {}).get(key)
        data = facts.get(fact, {}).get("data") or {}
        if modeled is None or part not in data:
            continue
        value = modeled["value"] * SCALE.get(modeled["unit"], 1)
        measured = data[part]
        ratio = f"{measured / value:.2f}" if value else "-"
        rows.append((f"`{section}.{key}`", f"{value:g}", f"{measured:.4g}", ratio, f"{fact}: {part}"))
    yield "GB/s, microseconds, counts. *measured* / *profile* of 1 is a model that is right."
    yield ""
    yield from table(("profile", "modeled", "measured", "ratio", "fact"), rows)


def answers(results):
    rows = ((f"`{name}`", fact.get("answer") or "failed: " + fact.get("failed", "")) for name, fact in facts_of(results).items())
    yield from table(("fact", "answer"), rows)


def footprint(results):
    measured, modeled = results.result("footprint"), results.result("footprint_model")
    if not measured or not modeled:
        yield "Not both runs are there."
        return
    of_model = {(run["allocator"], run["strategy"]): run for run in modeled["runs"]}
    rows = []
    for run in measured["runs"]:
        model = of_model.get((run["allocator"], run["strategy"]))
        if "error" in run or not model or "error" in model:
            rows.append((run["allocator"], run["strategy"], run.get("error", "modeled run failed"), "", "", "", ""))
            continue
        gib = [r["peak_reserved_bytes"] / GIB for r in (run, model)]
        p50 = [r["step_time_us"]["p50"] / 1e3 for r in (run, model)]
        hidden = [100 * r["h2d_hidden"] for r in (run, model)]
        rows.append((run["allocator"], run["strategy"], f"{gib[0]:.2f}", f"{gib[1]:.2f}", f"{p50[0]:.2f}",
                     f"{p50[1]:.2f}", f"{hidden[0]:.0f}%, {hidden[1]:.0f}%"))
    yield from table(("allocator", "strategy", "reserved GiB", "modeled", "step ms", "modeled", "hidden, both"), rows)


def peers(results):
    torch = results.result("torch_peer")
    if not torch:
        yield "PyTorch did not run."
        return
    yield f"PyTorch {torch['pytorch']}, ns a pair: " + ", ".join(f"{k} {v:.0f}" for k, v in torch["ns_per_pair"].items())
    yield ""
    rows = ((row["allocator"], row["strategy"], f"{row['peak_reserved_bytes'] / GIB:.2f}",
             f"{row['peak_active_bytes'] / GIB:.2f}", f"{row['mean_step_ms']:.2f}", f"{100 * row['h2d_hidden']:.0f}%")
            for row in torch["footprint"]["rows"])
    yield from table(("allocator", "strategy", "reserved GiB", "active GiB", "step ms", "hidden"), rows)


def logs(results, *names):
    for name in names:
        path = results.folder / f"{name}.log"
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            yield from (f"`{name}`", "", "```text", *text[-40:], "```", "")


def main():
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    results = Results(pathlib.Path(sys.argv[1]))
    summary = results.document("summary") or {}
    names = {"H200": "h200", "H100": "h100", "A100": "a100"}
    name = next((known for card, known in names.items() if card in summary.get("device", "")), "h100")
    profile = json.loads((pathlib.Path(sys.argv[2]) / f"{name}.json").read_text(encoding="utf-8"))
    parts = [
        ("What ran", steps(results)),
        (f"Measured beside the profile {name}", beside_the_profile(results, profile)),
        ("Facts", answers(results)),
        ("Footprint, measured beside modeled", footprint(results)),
        ("PyTorch's own allocator", peers(results)),
        ("Logs", logs(results, "bench_allocator", "bench_kernels_gpu", "stream_bench", "train")),
    ]
    print("# What a GPU said")
    for title, lines in parts:
        print(f"\n## {title}\n")
        for line in lines:
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
