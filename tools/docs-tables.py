#!/usr/bin/env python3
"""Writes the figures in docs/ from the output of the program, or checks them:

    tools/docs-tables.py [--check] [--program build/release/bin/millrace] [NAME...]

A table stands between `<!-- table NAME -->` and `<!-- end -->`. Without names the script makes all
tables, which takes a few minutes, and the output after `$ millrace ...` in blocks of ```text
(test_tools checks these). The name `output` makes only these blocks. They are 80 columns wide, as
without a terminal. Traces come from MILLRACE_DATA, otherwise from shared/data beside the project.
Parts whose trace is missing are left unchanged. With --check nothing is written, and the exit code
is 1 if a figure is stale.
"""
import argparse
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
DATA = pathlib.Path(os.environ.get("MILLRACE_DATA", DOCS.parent.parent / "shared/data"))
GIB = 2**30


class Program:
    def __init__(self, path):
        self.path = path

    @functools.lru_cache(maxsize=None)
    def run(self, *arguments):
        command = [self.path, *arguments, "--format", "json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


    def shows(self, line):
        """Returns the output of a command in a page, or None if its trace or server is missing."""
        words, names = line.split(), {}
        if "://" in line:  # an example whose server is missing
            return None
        for i, word in enumerate(words):
            if not word.endswith((".pickle", ".csv")):
                continue
            found = next(DATA.glob(f"traces/*/{word}"), None)
            if found is None:
                return None
            words[i], names[str(found)] = str(found), word
        plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        text = subprocess.run([self.path, *words], capture_output=True, text=True, env=plain).stdout
        for path, name in names.items():
            text = text.replace(path, name)
        return "\n".join(part.rstrip() for part in text.rstrip().split("\n"))


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(headings, rows):
    return [row(*headings), "|" + "---|" * len(headings), *rows]


def name_of(run):
    pool = run["figures"]["bytes"] == "modeled"
    return f"`{run['allocator']}`", ("~ " if pool else "") + f"`{run['strategy']}`"


def gib(value):
    return f"{value / GIB:.2f}"


# docs/copy-strategies.md


def strategies(program):
    document = program.run("footprint")

    def cells(run):
        ladder = run["ladder"]["steps"]
        return (gib(run["peak_reserved_bytes"]), gib(ladder["streams"]), f"{run['h2d_hidden']:.3f}",
                f"{run['step_time_us']['p50'] / 1e3:.2f}", f"{run['device_calls']['all']:.0f}")

    columns = ["reserved", "streams", "overlap", "step P50", "calls"]
    headings = ["allocator", "strategy", "SparseDist: " + columns[0], *columns[1:],
                "Base: " + columns[0], *columns[1:]]
    base = document["also"][0]["runs"]
    return table(headings, [row(*name_of(one), *cells(one), *cells(two))
                            for one, two in zip(document["runs"], base)])


def base_ladder(program):
    def cells(run):
        ladder = run["ladder"]
        return [gib(value) for value in (ladder["l1"], ladder["l2"], ladder["steps"]["streams"],
                                         ladder["reserved"])]

    rows = [row(f"`{run['allocator']}`, `{run['strategy']}`", *cells(run), f"{run['h2d_hidden']:.3f}")
            for run in program.run("footprint")["also"][0]["runs"]
            if run["figures"]["bytes"] == "measured"]
    return table(["Base, GiB", "L1", "L2", "streams", "reserved", "overlap"], rows)


# docs/footprint.md


def savings(program):
    document = program.run("footprint", "--workload", "sparse_data_dist_base", "--seeds", "200",
                           "--allocator", "torch,millrace", "--copy",
                           "side-stream,in-place,precise,ring")
    rows = []
    for run in document["runs"]:
        spread = run["spread"]
        cells = ["–"] * 2
        if "saving_bytes" in spread:
            saving = spread["saving_bytes"]
            cells = [gib(saving["median"]), f"{gib(saving['least'])} to {gib(saving['most'])}"]
        reserved = spread["peak_reserved_bytes"]
        medians = lambda seeds: [median(values(run)[i:i + seeds]) for i in range(0, 200, seeds)]
        values = lambda run: [seed["peak_reserved_bytes"] for seed in run["seeds"]]
        sets = [medians(5)[:40], medians(16)[:12]]
        rows.append(row(f"`{run['allocator']}`, `{run['strategy']}`", gib(reserved["median"]),
                        f"{gib(reserved['least'])} to {gib(reserved['most'])}", *cells,
                        *(f"{gib(min(s))} to {gib(max(s))}" for s in sets)))
    return table(["GiB, 200 seeds", "reserved", "range", "saves", "range",
                  "medians of 5 seeds", "medians of 16"], rows)


def median(values):
    return sorted(values)[(len(values) - 1) // 2]


# docs/comparison.md

PIPELINES = ["base", "sparse-dist-lite", "sparse-dist", "fused-sparse-dist", "semi-sync",
             "prefetch-sparse-dist"]


def pipeline_row(document, **wanted):
    for run in document["rows"]:
        lookup = run.get("lookup", {}).get("position")
        have = {**run, "position": lookup}
        if all(have[key] == value for key, value in wanted.items()):
            return run
    raise SystemExit(f"docs-tables: no row {wanted}")


def memory(program):
    rows = []
    for workload in ("sparse_data_dist_base", "heavy_dense", "pr2916"):
        document = program.run("pipelines", "--workload", workload, "--copy", "in-place,precise",
                               "--allocator", "torch,millrace", "--seeds", "1")
        unknown = {run["pipeline"] for run in document["rows"]} ^ set(PIPELINES)
        if unknown:
            raise SystemExit(f"docs-tables: PIPELINES and the program differ in {', '.join(sorted(unknown))}")

        def reserved(pipeline, allocator, copy):
            run = pipeline_row(document, pipeline=pipeline, allocator=allocator, copy=copy)
            return f"{run['peak_reserved_bytes'] / GIB:.1f}"

        rows.append(row(f"`{workload}`", *(
            f"{reserved(kind, 'millrace', 'precise')}, {reserved(kind, 'torch', 'in-place')}"
            for kind in PIPELINES)))
    return table(["", *PIPELINES], rows)


USUAL = ("--workload", "pr2916", "--seeds", "1", "--copy", "side-stream", "--allocator", "torch")


def runtime(run):
    return run["runtime_ms"]["p50"]


def optimizer(program):
    document = program.run("pipelines", *USUAL, "--pipeline",
                           "sparse-dist,fused-sparse-dist,semi-sync", "--optimizer-work", "1,8,64")
    rows = []
    for work in (1, 8, 64):
        times = [runtime(pipeline_row(document, pipeline=kind, optimizer_work=work))
                 for kind in ("sparse-dist", "fused-sparse-dist", "semi-sync")]
        rows.append(row(f"x {work}", f"{times[0]:.1f}", f"{times[1]:.1f}", f"{times[0] - times[1]:.1f}",
                        f"{times[2]:.1f}", f"{times[0] - times[2]:.1f}"))
    return table(["optimizer's work", "sparse-dist", "fused-sparse-dist", "less", "semi-sync",
                  "less"], rows)


PUBLISHED = [("sparse-dist", None, 51.80, 62.25, 6034.46),
             ("fused-sparse-dist", "before-optimizer", 53.23, 68.67, 5661.92),
             ("fused-sparse-dist", "after-optimizer", 53.23, 68.61, 5605.63),
             ("semi-sync", None, 61.63, 64.31, 5447.42)]


def published_run(program, *more):
    return program.run("pipelines", *USUAL, "--lookup-position",
                       "before-optimizer,after-optimizer", "--pipeline",
                       "sparse-dist,fused-sparse-dist,semi-sync", *more)


def published(program):
    document = published_run(program)
    base = runtime(pipeline_row(document, pipeline="sparse-dist"))
    rows = []
    for pipeline, position, allocated, reserved, time in PUBLISHED:
        run = pipeline_row(document, pipeline=pipeline, position=position)
        title = pipeline + (f", {position}" if position else "")
        rows.append(row(title, f"{allocated:.1f}, {run['peak_allocated_bytes'] / 1e9:.1f}",
                        f"{reserved:.1f}, {run['peak_reserved_bytes'] / 1e9:.1f}",
                        f"{time / PUBLISHED[0][4]:.3f}, {runtime(run) / base:.3f}"))
    return table(["published, here", "allocated, GB", "reserved, GB",
                  "runtime, share of sparse-dist's"], rows)


LINKS = [("virtual:h100", None, 1), ("virtual:a100", None, 1), ("virtual:a100", 25, 1),
         ("virtual:a100", 25, 64), ("virtual:a100", 16, 1), ("virtual:a100", 16, 64)]


def links(program):
    rows = [row("published (GPU and link not named)", "", "", "6034",
                *(f"{time / PUBLISHED[0][4]:.3f}" for *_, time in PUBLISHED[1:]))]
    for device, link, work in LINKS:
        more = ["--device", device, "--optimizer-work", str(work)]
        if link:
            more += ["--link-gb-per-s", str(link)]
        document = published_run(program, *more)
        times = [runtime(pipeline_row(document, pipeline=pipeline, position=position))
                 for pipeline, position, *_ in PUBLISHED]
        rows.append(row(device, f"{document['workload']['exchange_gb_per_s']:g}", f"x {work}",
                        f"{times[0]:.0f}", *(f"{time / times[0]:.3f}" for time in times[1:])))
    return table(["device", "link, GB/s", "optimizer", "sparse-dist, ms",
                  "fused, before the optimizer", "fused, after it", "semi-sync"], rows)


# docs/trace-set.md


def traces_of_the_set():
    """Yields name, entry and device of each trace. A trace of several devices has a row for each
    device."""
    manifest = json.loads((DOCS.parent / "bench/traces/manifest.json").read_text())
    for entry in manifest["traces"]:
        for device in entry["devices"]:
            yield f"[`{entry['name']}`](../bench/traces/{entry['file']})", entry, device


def trace_set(_program):
    rows = []
    for name, entry, device in traces_of_the_set():
        order = device["order"]
        made = "PyTorch" if "torch" in entry["versions"] else "`" + " ".join(entry["command"].split()[:2]) + "`"
        rows.append(row(name, entry["does"], made, device["streams"], f"{device['allocations']:,}",
                        f"{order.get('used', 0):,}", f"{order.get('waited', 0):,}", f"{entry['bytes'] / 1e3:.1f}"))
    return table(["trace", "program", "made by", "streams", "allocations", "recorded uses", "waits", "KB"], rows)


def trace_set_figures(_program):
    mib = lambda value: f"{value / 2**20:,.0f}"
    rows = []
    for name, entry, device in traces_of_the_set():
        torch, millrace = (device["allocators"][each] for each in ("torch", "millrace"))
        driver = " to ".join(dict.fromkeys(mib(device["driver"][each]) for each in ("least_bytes", "most_bytes")))
        itself = entry.get("pytorch_reserved_bytes", device.get("recorded_reserved_bytes"))
        rows.append(row(name, mib(device["live_bytes"]), mib(torch["ordered_bound_bytes"]), mib(device["packed_bytes"]),
                        mib(itself), driver, mib(torch["reserved_bytes"]), mib(millrace["reserved_bytes"])))
    return table(["MiB", "live", "ordered", "packed", "as it ran", "driver", "torch", "millrace"], rows)


TABLES = {"trace-set": trace_set, "trace-set-figures": trace_set_figures,
          "strategies": strategies, "base-ladder": base_ladder, "savings": savings,
          "pipelines-memory": memory, "pipelines-optimizer": optimizer,
          "pipelines-published": published, "pipelines-links": links}
OUTPUT = "output"  # replaces a table's name: blocks with a command


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a table is stale")
    parser.add_argument("--program", default=str(DOCS.parent / "build/release/bin/millrace"))
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], OUTPUT, *TABLES])
    given = parser.parse_args()
    program = Program(given.program)
    stale, found = [], set()
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()

        def made(match):
            name = match[1]
            found.add(name)
            if given.names and name not in given.names:
                return match[0]
            lines = "\n".join(TABLES[name](program))
            return f"<!-- table {name} -->\n{lines}\n<!-- end -->"

        def shown(match):
            printed = None if "\n...\n" in match[2] else program.shows(match[1])
            return match[0] if printed is None else f"```text\n$ millrace {match[1]}\n{printed}\n```"

        new = re.sub(r"<!-- table (\S+) -->\n.*?<!-- end -->", made, text, flags=re.S)
        if not given.names or OUTPUT in given.names:
            new = re.sub(r"```text\n\$ millrace (.*)\n((?:.*\n)*?)```", shown, new)
        if new != text:
            stale.append(page.name)
            if not given.check:
                page.write_text(new)
    missing = set(TABLES) - found
    for name in sorted(missing):
        print(f"docs-tables: no page has the table {name}", file=sys.stderr)
    for page in stale:
        print(f"{page}: {'stale' if given.check else 'written'}")
    return 1 if missing or (given.check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
