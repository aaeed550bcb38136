// A program with the CUDA driver and without the CUDA runtime. It allocates and frees 4 MiB.

#include <cuda.h>

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  const bool done = cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
                    cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
                    cuCtxSetCurrent(context) == CUDA_SUCCESS &&
                    cuMemAlloc(&block, 4 << 20) == CUDA_SUCCESS && cuMemFree(block) == CUDA_SUCCESS;
  return done ? 0 : 1;
}
