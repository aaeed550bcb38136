"""Makes Millrace the allocator of PyTorch's CUDA tensors.

In a program, before the first tensor on a GPU:

    import millrace.torch; millrace.torch.use()

A script that stays as it is:

    python -m millrace.torch train.py ARGUMENTS
"""

import ctypes
import os
import runpy
import sys

import millrace


def use():
    """Makes Millrace the allocator, with all hooks that PyTorch lets a pluggable allocator have.

    Raises RuntimeError if PyTorch's own allocator was used already. PyTorch has no hooks for statistics:
    use millrace.statistics() and millrace.snapshot(). Allocation during a graph capture is refused.
    """
    import torch

    library = millrace.library()  # before PyTorch opens it: a message of ours if it cannot be loaded
    memory = torch.cuda.memory.CUDAPluggableAllocator(millrace.library_path(), "millrace_malloc", "millrace_free")
    hooks = memory.allocator()

    def address(name):
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value

    hooks.set_record_stream_fn(address("millrace_torch_record_stream"))
    hooks.set_reset_fn(address("millrace_torch_reset"))
    hooks.set_memory_fraction_fn(address("millrace_torch_memory_fraction"))
    torch.cuda.memory.change_current_allocator(memory)
    return memory


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m millrace.torch SCRIPT [ARGUMENTS]")
    script = sys.argv[1]
    if not os.path.isfile(script):
        sys.exit(f"python -m millrace.torch: {script} is not a file")
    try:
        use()
    except ImportError as error:
        sys.exit(f"python -m millrace.torch: PyTorch cannot be imported: {error}")
    except millrace.Error as error:
        sys.exit(f"python -m millrace.torch: {error}")
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
