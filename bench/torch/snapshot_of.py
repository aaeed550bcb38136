#!/usr/bin/env python3
"""Runs a program with PyTorch's memory history on, and writes the snapshot at its end:

    snapshot_of.py OUT.pickle SCRIPT [ARGUMENTS]

`millrace replay` and `millrace explain` read OUT.pickle. Exit code 4: no PyTorch, or no GPU that it
can use.
"""

import os
import runpy
import sys

SKIPPED = 4


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.splitlines()[2].strip())
    try:
        import torch
    except ImportError:
        print("snapshot_of: there is no PyTorch")
        sys.exit(SKIPPED)
    if not torch.cuda.is_available():
        print("snapshot_of: PyTorch finds no GPU")
        sys.exit(SKIPPED)
    out, script = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    sys.argv = sys.argv[2:]
    sys.path.insert(0, os.path.dirname(script))
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        torch.cuda.synchronize()
        torch.cuda.memory._dump_snapshot(out)


if __name__ == "__main__":
    main()
