#include "allocator/subjects/cccl/calls.hpp"

#include "allocator/machine/machine.hpp"

// The functions that CUB and Thrust call. The current device and a thread's last error need no
// driver, so these calls are not counted.

namespace {

millrace::bench::Driver& driver() { return millrace::bench::current_machine()->driver(); }

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  *address = driver().allocate(bytes);
  return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  driver().free(address);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = static_cast<cudaEvent_t>(driver().create_event().value);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  driver().destroy_event({event});
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  driver().record({event}, {stream});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return driver().query({event}) ? cudaSuccess : cudaErrorNotReady;
}

}  // extern "C"
