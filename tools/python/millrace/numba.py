"""Makes Millrace the memory manager of Numba: NUMBA_CUDA_MEMORY_MANAGER=millrace.numba, or

    import millrace.numba; millrace.numba.use()
"""

import ctypes

from numba import cuda

import millrace

_LEGACY_STREAM = 0


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):
    """Numba's plugin interface, version 1, for the memory of arrays. Pinned and mapped memory stay
    Numba's.

    Numba does not report which streams use an array. Therefore memory is freed when the GPU has
    completed all work, as with cuMemFree. Numba collects frees and makes several at a time.
    """

    def initialize(self):
        millrace.library()
        if int(self.deallocations.memory_capacity) == 0:  # not set yet
            self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size):
        device = self.context.device.id

        def allocate():
            return millrace.allocate(size, device, _LEGACY_STREAM)

        try:
            address = allocate()
        except millrace.OutOfMemory:
            self.deallocations.clear()
            address = allocate()
        context, deallocations = self.context, self.deallocations

        def free(address):
            context.synchronize()
            millrace.free(address, device)

        def finalizer():
            if address != 0:
                deallocations.add_item(free, address, size)

        return cuda.MemoryPointer(context, ctypes.c_void_p(address), size, finalizer=finalizer)

    def get_memory_info(self):
        free, total = cuda.cudadrv.driver.driver.cuMemGetInfo()
        return cuda.MemoryInfo(free=int(free), total=int(total))

    def get_ipc_handle(self, memory):
        raise NotImplementedError("memory of Millrace cannot be shared with another process")

    @property
    def interface_version(self):
        return 1


_numba_memory_manager = MemoryManager


def use():
    """Makes Millrace the memory manager. Call it before Numba uses a GPU."""
    cuda.set_memory_manager(MemoryManager)
