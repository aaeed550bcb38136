"""Millrace: a stream-ordered caching allocator for CUDA.

This package contains libmillrace.so, its headers and its CMake package. It makes Millrace the
allocator of PyTorch (millrace.torch), CuPy (millrace.cupy) or Numba (millrace.numba).
docs/python.md describes it.
"""

import ctypes
import functools
import glob
import json
import os
import sysconfig

__all__ = ["Error", "annotate", "cmake_prefix", "include_dir", "library", "library_path", "record_history", "snapshot",
           "statistics", "trim"]

_here = os.path.dirname(os.path.abspath(__file__))


class Error(RuntimeError):
    """A call of the library failed. The message comes from the library."""


class OutOfMemory(Error, MemoryError):
    """The GPU or the host is out of memory, or the limit was reached."""


def cmake_prefix():
    """The folder to add to CMAKE_PREFIX_PATH. scikit-build-core adds it by itself."""
    return _here


def include_dir():
    """The folder of millrace.h."""
    return os.path.join(_here, "include")


def library_path():
    """The path of libmillrace.so: MILLRACE_LIBRARY if it is set, otherwise the library in this
    package."""
    named = os.environ.get("MILLRACE_LIBRARY")
    if named:
        return named
    found = sorted(glob.glob(os.path.join(_here, "lib", "libmillrace.so.*")))
    if not found:
        raise Error(f"{_here}/lib has no libmillrace.so: name one in MILLRACE_LIBRARY")
    return found[-1]


def _load_cuda_runtime(missing):
    # PyPI's nvidia-cuda-runtime has the library in a folder that the loader does not search.
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in glob.glob(os.path.join(site, "nvidia", "*", "lib", missing)):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            return True
    return False


@functools.cache
def library():
    """libmillrace.so as a ctypes.CDLL with typed functions. The first call loads it."""
    path = library_path()
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        missing = str(error).split(":")[0]
        if not missing.startswith("libcudart.so") or not _load_cuda_runtime(missing):
            raise Error(f"{path} cannot be loaded: {error}") from None
        loaded = ctypes.CDLL(path)
    address, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in [
        ("millrace_last_error", text, []),
        ("millrace_last_status", ctypes.c_int, []),
        ("millrace_version", text, []),
        ("millrace_malloc", address, [ctypes.c_ssize_t, ctypes.c_int, address]),
        ("millrace_free", None, [address, ctypes.c_ssize_t, ctypes.c_int, address]),
        ("millrace_free_owned", ctypes.c_int, [address, ctypes.c_int]),
        ("millrace_record_stream", ctypes.c_int, [address, ctypes.c_int, address]),
        ("millrace_trim", ctypes.c_int, [ctypes.c_int, size, ctypes.POINTER(size)]),
        ("millrace_statistics_json", ctypes.c_int, [ctypes.c_int, text, size, ctypes.POINTER(size)]),
        ("millrace_snapshot", ctypes.c_int, [ctypes.c_int, text]),
        ("millrace_record_history", ctypes.c_int, [ctypes.c_int, size, ctypes.c_uint]),
        ("millrace_annotate", ctypes.c_int, [ctypes.c_int, text]),
    ]:
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


_OUT_OF_MEMORY = 1


def check(status):
    """Raises the error that the status of a call stands for."""
    if status == 0:
        return
    message = library().millrace_last_error().decode()
    raise (OutOfMemory if status == _OUT_OF_MEMORY else Error)(message)


def allocate(size, device, stream):
    """Allocates bytes for work on `stream` (a cudaStream_t as an int). Returns 0 for 0 bytes."""
    address = library().millrace_malloc(size, device, stream)
    if address is None and size != 0:
        check(library().millrace_last_status())
    return address or 0


def free(address, device):
    """Frees memory in the order of the stream for which it was allocated."""
    check(library().millrace_free_owned(address, device))


def statistics(device=0):
    """The statistics of a GPU's memory as a dict. docs/accounting.md defines the names."""
    needed = ctypes.c_size_t()
    library().millrace_statistics_json(device, None, 0, ctypes.byref(needed))
    while True:
        text = ctypes.create_string_buffer(needed.value + 1024)
        status = library().millrace_statistics_json(device, text, len(text), ctypes.byref(needed))
        if status == 0:
            return json.loads(text.value)
        if needed.value <= len(text):
            check(status)


def record_history(allocations=100_000, stack_frames=0, device=0):
    """Records allocations, frees and segments for snapshots.

    Keeps at least the newest `allocations`. Live allocations, and those that another stream may
    still use, are also kept. 0 ends the recording. With `stack_frames` (at most 64), each new
    allocation has that many of its innermost frames, which are frames of C and C++."""
    check(library().millrace_record_history(device, allocations, stack_frames))


def annotate(name, device=0):
    """Begins a part of the program with this name in the recorded history."""
    check(library().millrace_annotate(device, name.encode()))


def snapshot(path, device=0):
    """Writes all segments and blocks of a GPU: in PyTorch's format if `path` ends with .pickle,
    otherwise as JSON."""
    check(library().millrace_snapshot(device, os.fsencode(path)))


def trim(device=0, keep=0):
    """Releases free memory, but keeps at least `keep` bytes reserved. Returns the released bytes.
    """
    released = ctypes.c_size_t()
    check(library().millrace_trim(device, keep, ctypes.byref(released)))
    return released.value
