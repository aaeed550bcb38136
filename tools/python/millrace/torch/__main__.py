"""python -m millrace.torch SCRIPT: runs a script on Millrace's allocator."""

import os
import runpy
import sys

import millrace
import millrace.torch


def main():
    arguments = sys.argv[1:]
    use = millrace.torch.use
    if arguments[:1] == ["--pluggable"]:
        use = millrace.torch.use_pluggable
        del arguments[0]
    if not arguments or arguments[0].startswith("-"):
        sys.exit("usage: python -m millrace.torch [--pluggable] SCRIPT [ARGUMENTS]")
    script = arguments[0]
    if not os.path.isfile(script):
        sys.exit(f"python -m millrace.torch: {script} is not a file")
    # If it stays set, `import torch` would install Millrace a second time.
    os.environ.pop("MILLRACE_TORCH", None)
    try:
        use()
    except ImportError as error:
        sys.exit(f"python -m millrace.torch: PyTorch cannot be imported: {error}")
    except millrace.Error as error:
        sys.exit(f"python -m millrace.torch: {error}")
    sys.argv[:] = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
