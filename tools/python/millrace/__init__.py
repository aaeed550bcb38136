"""Millrace: a stream-ordered caching allocator for CUDA.

This package holds libmillrace.so, its headers and its CMake package, and makes the allocator that of
PyTorch (millrace.torch), CuPy (millrace.cupy) or Numba (millrace.numba). docs/python.md describes it.
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
    """A call of the library failed. The message is the library's."""


class OutOfMemory(Error, MemoryError):
    """The GPU, the limit or the host has no memory."""


def cmake_prefix():
    """The folder to add to CMAKE_PREFIX_PATH. scikit-build-core adds it by itself."""
    return _here


def include_dir():
    """The folder of millrace.h."""
    return os.path.join(_here, "include")


def library_path():
    """The path of libmillrace.so: MILLRACE_LIBRARY if it is set, else the one in this package."""
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
    """libmillrace.so as a ctypes.CDLL, with the types of its functions set. Loads it at the first call."""
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
    """Raises what the status of a call says."""
    if status == 0:
        return
    message = library().millrace_last_error().decode()
    raise (OutOfMemory if status == _OUT_OF_MEMORY else Error)(message)


def allocate(size, device, stream):
    """Bytes that work on `stream` (a cudaStream_t as an int) may use from now on; 0 for no bytes."""
    address = library().millrace_malloc(size, device, stream)
    if address is None and size != 0:
        check(library().millrace_last_status())
    return address or 0


def free(address, device):
    """Frees in the order of the stream that the memory was allocated for."""
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

    At least the newest `allocations` are kept; live ones, and ones that another stream may still use, are kept as
    well. 0 ends the recording. With `stack_frames`, at most 64, each new allocation has that many of its innermost
    frames, which are those of C and C++."""
    check(library().millrace_record_history(device, allocations, stack_frames))


def annotate(name, device=0):
    """Begins a part of the program with this name in the history."""
    check(library().millrace_annotate(device, name.encode()))


def snapshot(path, device=0):
    """Writes every segment and block of a GPU's memory: as JSON, or as a snapshot of PyTorch's if `path` ends with .pickle."""
    check(library().millrace_snapshot(device, os.fsencode(path)))


def trim(device=0, keep=0):
    """Gives free memory back, as far as at least `keep` bytes stay reserved; returns the bytes given back."""
    released = ctypes.c_size_t()
    check(library().millrace_trim(device, keep, ctypes.byref(released)))
    return released.value
