"""Numba's arrays on Millrace: bytes are counted, data are right, and memory is freed when Numba
frees."""

import os

os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "millrace.numba"

import numpy  # noqa: E402
from numba import cuda  # noqa: E402

import millrace  # noqa: E402


def requested():
    return millrace.statistics()["bytes"]["requested"]["current"]


host = numpy.arange(1 << 18, dtype=numpy.float32)
array = cuda.to_device(host)
assert requested() == host.nbytes, requested()
assert (array.copy_to_host() == host).all()
for step in range(50):
    batch = cuda.to_device(host + step)
    assert (batch.copy_to_host() == host + step).all()
    del batch
del array
cuda.current_context().memory_manager.reset()
assert requested() == 0, requested()
