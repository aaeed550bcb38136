// The loop with Millrace.
#include "loop.hpp"
#include "millrace/interop/device_memory.hpp"

static millrace::DeviceMemory& memory = millrace::default_memory(0);

void* allocate(std::size_t bytes, cudaStream_t stream) { return memory.allocate(bytes, stream); }

void release(void* address, cudaStream_t stream) { memory.deallocate(address, stream); }

int main() { TrainingLoop{}.run(10); }
