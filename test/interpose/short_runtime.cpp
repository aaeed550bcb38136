// A runtime that takes 1 GiB of the GPU for managed memory, for arrays and for the launch of a
// graph. The virtual runtime takes none for these. All other functions are the virtual runtime's.

#include <cuda_runtime_api.h>

#include <cstdlib>

namespace {

cudaError_t take_a_gibibyte() {
  std::size_t free = 0, total = 0;
  const cudaError_t error = cudaMemGetInfo(&free, &total);
  if (error != cudaSuccess) return error;
  return free < (std::size_t{1} << 30) ? cudaErrorMemoryAllocation : cudaSuccess;
}

}  // namespace

#define SHORT_RUNTIME extern "C" __attribute__((visibility("default"))) cudaError_t

SHORT_RUNTIME cudaMallocManaged(void** address, std::size_t, unsigned) {
  static char managed;
  *address = &managed;
  return take_a_gibibyte();
}
SHORT_RUNTIME cudaMallocArray(cudaArray_t*, const cudaChannelFormatDesc*, std::size_t, std::size_t,
                              unsigned) {
  return take_a_gibibyte();
}
SHORT_RUNTIME cudaMalloc3DArray(cudaArray_t*, const cudaChannelFormatDesc*, cudaExtent, unsigned) {
  return take_a_gibibyte();
}
SHORT_RUNTIME cudaMallocMipmappedArray(cudaMipmappedArray_t*, const cudaChannelFormatDesc*,
                                       cudaExtent, unsigned, unsigned) {
  return take_a_gibibyte();
}
SHORT_RUNTIME cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return take_a_gibibyte(); }
SHORT_RUNTIME cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return take_a_gibibyte(); }
