#!/usr/bin/env python3
"""Recreates the traces of this folder and their manifest:

    bench/traces/make.py [--program build/dev/bin/millrace] [--torch FOLDER]
                         [--check | --figures] [NAME...]

Without names it makes all traces. Traces of PyTorch programs need --torch, with a FOLDER whose
bin/python has torch. --check writes nothing, and ends with 1 if a new trace differs from the one in
the folder. --figures records nothing: it counts and replays the existing files, for use after a
change of an allocator. docs/trace-set.md describes the traces.
"""

import argparse
import datetime
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import trace_set

FOOTPRINT = "millrace footprint --allocator torch --copy side-stream --seeds 1"
TORCH = "millrace run --allocator own --virtual h200,memory=80GiB -- python bench/traces/record_torch.py OUT"
GALLERY = f"{TORCH} docs/examples/gallery"
PROGRAMS = f"{TORCH} bench/traces/programs"

# Name, command, and a description of the program. OUT is the trace, FOLDER an empty folder.
TRACES = [
    ("packed_weights", f"{GALLERY}/packed_weights.py",
     "weights are packed on two new streams at each step"),
    ("stream_per_call", f"{GALLERY}/stream_per_call.py",
     "each call has a stream of its own"),
    ("fork_join", f"{GALLERY}/driver_calls.py",
     "four new streams for each run; the main stream waits for them and uses what they made"),
    ("input_stream", f"{GALLERY}/stream_fragmentation.py",
     "an input stream exchanges and permutes batches, the main stream computes"),
    ("all_gather", f"{GALLERY}/all_gather.py",
     "the weights of the next layer are gathered on a stream of their own, as with FSDP"),
    ("rollout_and_training", f"{GALLERY}/rollout_and_training.py",
     "generation and training take turns on two streams, with random sizes"),
    ("taking_turns", f"{PROGRAMS}/taking_turns.py",
     "the same with four equal buffers and three steps"),
    ("prefetching_loader", f"{PROGRAMS}/prefetching_loader.py",
     "a transformer on sequences of varying length, copied ahead on a side stream; accumulated gradients, evaluations"),
    ("recommender_pipeline", f"{PROGRAMS}/recommender_pipeline.py",
     "a recommender in three stages on three streams: copy, exchange of features, training"),
    ("sparse_dist", f"{FOOTPRINT} --workload sparse_data_dist_base --steps 10 --record OUT",
     "TorchRec's TrainPipelineSparseDist with batches of 1 GiB, copied on a side stream"),
    ("ranking_with_evaluation",
     f"{FOOTPRINT} --workload bench/traces/workloads/ranking_with_evaluation.json --record OUT",
     "the same loop for a ranking model with sharded tables, Adam, and an evaluation every fifth batch"),
    ("sharded_transformer", f"{FOOTPRINT} --workload bench/traces/workloads/sharded_transformer.json --record OUT",
     "a transformer with sharded parameters: gathers and reductions on a stream, checkpoints, accumulated gradients"),
    ("streamed_training",
     "millrace train --data synthetic --model bench/traces/workloads/streamed_model.json --batch-size 4096 --steps 16 "
     "--pipeline prefetch-sparse-dist --allocator torch --copy side-stream --stream file:FOLDER --record OUT",
     "a recommender trains with tables in host memory and a cache, whose rows are fetched ahead; a streamer copies "
     "changed rows out"),
]

# Traces where the preset millrace reserves more than torch, with the reason.
KNOWN = {}

# Traces where the order of frees in backward, and of completions, differs between runs.
VARIES = {"prefetching_loader"}


def words(command, program, torch, out, scratch):
    values = {"millrace": str(program), "python": str(torch / "bin" / "python") if torch else "python", "OUT": str(out)}
    return [values.get(word, word.replace("FOLDER", str(scratch))) for word in command.split()]


def run(command, program, torch, out, scratch):
    """Returns the output of a command."""
    environment = {**os.environ, "PYTHONPATH": str(trace_set.ROOT / "tools" / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONHASHSEED": "0", "MILLRACE_VIRTUAL_REPORT": "", "COLUMNS": "80"}
    done = subprocess.run(words(command, program, torch, out, scratch), cwd=trace_set.ROOT, env=environment,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"make.py: {command}: ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def record(command, program, torch, folder):
    """Returns the bytes of a new trace."""
    out, scratch = folder / "out.trace", folder / "scratch"
    scratch.mkdir()
    run(command, program, torch, out, scratch)
    return out.read_bytes()


def pytorch_reserved(command, program, torch):
    """Returns the bytes that PyTorch's own allocator reserves for the program."""
    return int(run(command, program, torch, "--reserved", "").split()[-1])


def same_requests(name, one, other):
    """Whether two traces have the same requests and order. Addresses of blocks differ between runs.
    """

    def allocations_of(data):
        log = trace_set.trace_format.parse(data)
        return [(block.stream, block.bytes) for block in log.blocks], log.count("freed"), log.count("used")

    if name in VARIES:
        return allocations_of(one) == allocations_of(other)

    def all_of(data):
        log = trace_set.trace_format.parse(data)
        blocks = [(block.bytes, log.stack(block.stack), log.label(block)) for block in log.blocks]
        streams = [stream._replace(handle=0) for stream in log.streams]
        return log.program, log.devices, streams, [event._replace(address=None) for event in log.events], blocks

    return one == other or all_of(one) == all_of(other)


def needs_torch(command):
    return "record_torch.py" in command


def versions(command, program, torch):
    made = {"millrace": subprocess.run([str(program), "--version"], check=True, capture_output=True, text=True)
            .stdout.split()[-1]}
    if needs_torch(command):
        print_versions = "import sys, torch; print(torch.__version__, sys.version.split()[0])"
        printed = subprocess.run([str(torch / "bin" / "python"), "-c", print_versions], check=True, capture_output=True,
                                 text=True).stdout
        made["torch"], made["python"] = printed.split()
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=trace_set.ROOT / "build/dev/bin/millrace")
    parser.add_argument("--torch", type=pathlib.Path, metavar="FOLDER")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true")
    what.add_argument("--figures", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *(name for name, *_ in TRACES)])
    given = parser.parse_args()
    given.program, given.torch = given.program.resolve(), given.torch and given.torch.resolve()

    old = {each["name"]: each for each in trace_set.load()["traces"]} if trace_set.MANIFEST.exists() else {}
    entries, different = [], []
    for name, command, does in TRACES:
        path = trace_set.FOLDER / f"{name}.trace.gz"
        chosen = not given.names or name in given.names
        if given.figures:
            makes = False
        elif needs_torch(command) and given.torch is None:
            makes = False
            if chosen:
                print(f"{name}: left as it is; with --torch FOLDER it is made")
        else:
            makes = chosen
        entry = old.get(name, {})
        if makes:
            with tempfile.TemporaryDirectory() as folder:
                data = record(command, given.program, given.torch, pathlib.Path(folder))
            if path.exists() and entry and same_requests(name, gzip.decompress(path.read_bytes()), data):
                print(f"{name}: the same")
            elif given.check:
                different.append(name)
                print(f"{name}: another trace than in the folder")
            else:
                path.write_bytes(gzip.compress(data, 9, mtime=0))
                entry = {"made": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                         "versions": versions(command, given.program, given.torch)}
                if needs_torch(command):
                    entry["pytorch_reserved_bytes"] = pytorch_reserved(command, given.program, given.torch)
                print(f"{name}: written, {path.stat().st_size} bytes")
        if path.exists() and entry:
            kept = {key: entry[key] for key in ("made", "versions", "pytorch_reserved_bytes") if key in entry}
            entries.append({"name": name, "does": does, "file": path.name, "command": command, **kept,
                            **trace_set.identity(path), "devices": trace_set.figures(given.program, path),
                            **({"known": KNOWN[name]} if name in KNOWN else {})})
    if not given.check:
        manifest = {"schema": "millrace.trace-set/1", "license": "Apache-2.0", "traces": entries}
        trace_set.MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
