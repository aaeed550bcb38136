"""Makes Millrace the allocator of CuPy's arrays:

    import millrace.cupy; millrace.cupy.use()
"""

import millrace


def _allocate(size, device):
    import cupy

    return millrace.allocate(size, device, cupy.cuda.get_current_stream().ptr)


def use():
    """Makes Millrace the allocator of arrays that are made from now on.

    An array belongs to the stream that is current when it is made, as with CuPy's own pool, and its memory is
    freed in the order of that stream. Work on another stream has to be over, or waited for, before it is freed.
    """
    import cupy

    millrace.library()
    allocator = cupy.cuda.PythonFunctionAllocator(_allocate, millrace.free)
    cupy.cuda.set_allocator(allocator.malloc)
    return allocator
