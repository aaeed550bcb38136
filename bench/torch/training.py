#!/usr/bin/env python3
"""Trains with PyTorch's own allocator and with Millrace's on one GPU: losses, step time and memory.

    training.py [transformer|dlrm ...] [--steps N] [--rounds N] [--json FILE]

Each training runs in a separate process, --rounds times with each allocator in turn. Program and
random numbers are the same. The exit code is 1 if the losses of a training differ in any bit. The
package millrace and the folder of trainings.py (tools/virtual-cuda/pytorch) must be on PYTHONPATH.
Exit code 4: no PyTorch, or no GPU that it can use.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SKIPPED = 4
WARM_UP = 5
ALLOCATORS = ("pytorch", "millrace")


def steps_of(name):
    import torch
    from trainings import train_dlrm, train_transformer

    if name == "transformer":
        return train_transformer("cuda", tokens=32_000, batch=16, length=512, width=1024, blocks=12)
    return train_dlrm("cuda", tables=26, rows=500_000, width=64, batch=16_384, copy=torch.cuda.Stream())


def train(name, count):
    """Runs one training. Its figures are the last line of the output."""
    import torch

    torch.manual_seed(1)
    # Losses can be compared only if kernels add in the same order each time.
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    steps = steps_of(name)
    losses = []
    for i in range(count):
        if i == WARM_UP:
            torch.cuda.synchronize()
            began = time.perf_counter()
        losses.append(next(steps).detach())
    torch.cuda.synchronize()
    milliseconds = (time.perf_counter() - began) * 1e3 / (count - WARM_UP)
    peaks = torch.cuda.memory_stats()
    print(json.dumps({
        "backend": torch.cuda.get_allocator_backend(),
        "losses": [float(loss).hex() for loss in losses],
        "step_ms": milliseconds,
        "allocated_bytes": peaks["allocated_bytes.all.peak"],
        "reserved_bytes": peaks["reserved_bytes.all.peak"],
        "device_allocations": peaks["num_device_alloc"],
    }))


def run(name, allocator, count):
    command = [sys.executable, "-W", "ignore", *(["-m", "millrace.torch"] if allocator == "millrace" else []),
               __file__, name, "--steps", str(count), "--one"]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                         env=dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8"))
    found = json.loads(ran.stdout.splitlines()[-1])
    if (found.pop("backend") == "millrace") != (allocator == "millrace"):
        raise RuntimeError(f"the training was not run on the allocator {allocator}")
    return found


def compare(name, count, rounds):
    """Runs a training with both allocators. Returns its row."""
    figures = {allocator: [] for allocator in ALLOCATORS}
    for _ in range(rounds):
        for allocator in ALLOCATORS:
            figures[allocator].append(run(name, allocator, count))
    losses = [each["losses"] for runs in figures.values() for each in runs]
    row = {"training": name, "steps": count, "losses_are_equal": all(each == losses[0] for each in losses),
           "last_loss": float.fromhex(losses[0][-1])}
    for allocator, runs in figures.items():
        row[allocator] = {key: statistics.median(each[key] for each in runs) for key in runs[0] if key != "losses"}
    print(f"{name}: losses {'are equal' if row['losses_are_equal'] else 'DIFFER'} over {count} steps")
    for allocator in ALLOCATORS:
        found = row[allocator]
        print(f"  {allocator}: {found['step_ms']:.2f} ms a step, {found['allocated_bytes'] / 2**30:.2f} GiB allocated, "
              f"{found['reserved_bytes'] / 2**30:.2f} GiB reserved, {found['device_allocations']} calls for memory")
    sys.stdout.flush()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("training", nargs="*", metavar="transformer|dlrm", help="which (both)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = set(arguments.training) - {"transformer", "dlrm"}
    if unknown:
        parser.error(f"there is no training {', '.join(sorted(unknown))}; right: transformer, dlrm")
    if arguments.steps <= WARM_UP or arguments.rounds < 1:
        parser.error(f"--steps has to be above {WARM_UP} and --rounds at least 1")
    try:
        import torch
    except ImportError:
        print("training: there is no PyTorch")
        return SKIPPED
    if arguments.one:
        train(arguments.training[0], arguments.steps)
        return 0
    if not torch.cuda.is_available():
        print("training: PyTorch finds no GPU")
        return SKIPPED
    rows = [compare(name, arguments.steps, arguments.rounds) for name in arguments.training or ("transformer", "dlrm")]
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "millrace.torch-training/1", "pytorch": torch.__version__,
                       "gpu": torch.cuda.get_device_name(), "rounds": arguments.rounds, "rows": rows}, file)
    return 0 if all(row["losses_are_equal"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
