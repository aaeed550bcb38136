"""Makes Millrace the allocator of CuPy's arrays:

    import millrace.cupy; millrace.cupy.use()
"""

import millrace


def _allocate(size, device):
    import cupy

    return millrace.allocate(size, device, cupy.cuda.get_current_stream().ptr)


def use():
    """Makes Millrace the allocator of all arrays that are made from now on.

    An array belongs to the stream that is current at its creation, as with CuPy's own pool. Its
    memory is freed in the order of that stream. Work on other streams must be complete, or that
    stream must wait for it, before the array is freed.
    """
    import cupy

    millrace.library()
    allocator = cupy.cuda.PythonFunctionAllocator(_allocate, millrace.free)
    cupy.cuda.set_allocator(allocator.malloc)
    return allocator
