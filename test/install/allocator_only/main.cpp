// The allocator without the rest of Millrace, on a stream that it did not create, as in a program
// that calls cudaStreamCreate itself.
#include <cstdlib>

#include "millrace/device/ordered_device.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"

int main() {
  millrace::VirtualMachine machine;
  millrace::OrderedDevice device{machine.add_device()};
  millrace::DeviceSource source{device.device()};
  millrace::CachingAllocator allocator{device, source, millrace::Policy::millrace()};

  void* const stream = device.device().create_stream().value;  // as a cudaStream_t, a pointer
  void* const memory = allocator.allocate(4, millrace::StreamHandle{stream});
  allocator.deallocate(memory);
  device.device().destroy_stream(millrace::StreamHandle{stream});
  return memory == nullptr ? EXIT_FAILURE : EXIT_SUCCESS;
}
