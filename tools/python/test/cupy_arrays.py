"""CuPy's arrays on Millrace: bytes are counted, data are right, and memory of freed arrays is
reused."""

import cupy
import numpy

import millrace
import millrace.cupy


def requested():
    return millrace.statistics()["bytes"]["requested"]["current"]


millrace.cupy.use()
host = numpy.arange(1 << 20, dtype=numpy.float32)
array = cupy.asarray(host)
assert requested() == host.nbytes, requested()
assert (array.get() == host).all()

side = cupy.cuda.Stream(non_blocking=True)
with side:
    for step in range(20):
        batch = cupy.empty(1 << 20, dtype=numpy.float32)
        batch.set(host + step)
        assert (batch.get() == host + step).all()
        del batch
side.synchronize()
assert requested() == host.nbytes
reserved = millrace.statistics()["bytes"]["reserved"]
assert reserved["peak"] < 64 << 20, reserved
del array
assert requested() == 0
