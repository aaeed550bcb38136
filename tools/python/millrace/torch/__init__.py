"""Makes Millrace the allocator of PyTorch's CUDA tensors.

In a program, before the first tensor on a GPU:

    import millrace.torch; millrace.torch.use()

For a script without changes:

    MILLRACE_TORCH=1 python train.py ARGUMENTS
    python -m millrace.torch train.py ARGUMENTS

docs/python.md describes it.
"""

import ctypes
import os

import millrace

__all__ = ["use", "use_pluggable"]

_current_stream = None
_FORMS = {"1": "use", "pluggable": "use_pluggable"}


def _torch():
    import torch

    if torch.version.cuda is None:
        raise millrace.Error(f"torch {torch.__version__} is built without CUDA")
    millrace.library()  # load it first, so that an error has Millrace's message
    return torch


def use():
    """Makes Millrace the allocator for memory, statistics, snapshots, pools and graphs.

    The first call with a version of PyTorch builds a small extension. This needs a C++20 compiler
    and takes about a minute. The extension is kept in MILLRACE_TORCH_CACHE (~/.cache/millrace).
    Raises millrace.Error if the extension cannot be built, or if PyTorch's own allocator was
    already used.
    """
    torch = _torch()
    from millrace.torch import _build, _settings

    extension = ctypes.CDLL(_build.extension(torch))
    install = extension.millrace_torch_extension_install
    install.restype, install.argtypes = ctypes.c_char_p, []
    refused = install()
    if refused is not None:
        raise millrace.Error(f"Millrace cannot be PyTorch's allocator: {refused.decode()}")
    _settings.take_over(torch)


def use_pluggable():
    """Makes Millrace the allocator through PyTorch's hooks for pluggable allocators. It builds
    nothing.

    PyTorch has no such hooks for statistics and snapshots: torch.cuda.memory_allocated() raises an
    error. Use millrace.statistics() and millrace.snapshot() instead.
    """
    torch = _torch()
    library = millrace.library()
    memory = torch.cuda.memory.CUDAPluggableAllocator(
        millrace.library_path(), "millrace_torch_malloc", "millrace_torch_free")
    hooks = memory.allocator()
    for setter, name in [
        ("set_init_fn", "init"),
        ("set_reset_fn", "reset"),
        ("set_memory_fraction_fn", "memory_fraction"),
        ("set_base_alloc_fn", "base_alloc"),
        ("set_record_stream_fn", "record_stream"),
        ("set_begin_allocate_to_pool", "begin_allocate_to_pool"),
        ("set_end_allocate_to_pool_fn", "end_allocate_to_pool"),
        ("set_release_pool", "release_pool"),
    ]:
        address = ctypes.cast(getattr(library, f"millrace_torch_{name}"), ctypes.c_void_p).value
        getattr(hooks, setter)(address)
    global _current_stream  # the library keeps its address
    _current_stream = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(torch._C._cuda_getCurrentRawStream)
    library.millrace_torch_set_current_stream(_current_stream)
    torch.cuda.memory.change_current_allocator(memory)
    from millrace.torch import _settings

    _settings.take_over(torch)
    return memory


def _autoload():
    """PyTorch calls this at the end of `import torch` (entry point torch.backends)."""
    wanted = os.environ.get("MILLRACE_TORCH", "")
    if wanted in ("", "0"):
        return
    if wanted not in _FORMS:
        raise millrace.Error(f"MILLRACE_TORCH={wanted}: wanted {', '.join(_FORMS)} or 0")
    globals()[_FORMS[wanted]]()
