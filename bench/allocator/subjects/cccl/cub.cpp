#include "allocator/subjects/cccl/calls.hpp"

// After calls.hpp:
#include <cub/util_allocator.cuh>
#include <new>

#include "allocator/subjects/peer.hpp"

namespace millrace::bench {
namespace {

class CubSubject final : public Peer {
 public:
  using Peer::Peer;

  void* allocate(std::size_t bytes, unsigned stream) override {
    void* address = nullptr;
    const auto on = static_cast<cudaStream_t>(handle(stream).value);
    if (allocator_.DeviceAllocate(&address, bytes, on) != cudaSuccess) throw std::bad_alloc{};
    return address;
  }
  void free(void* address, std::size_t, unsigned) override { allocator_.DeviceFree(address); }

 private:
  cub::CachingDeviceAllocator allocator_{2, 9, 40};  // powers of two, 512 bytes to 1 TiB
};

}  // namespace

std::unique_ptr<Subject> make_cub(Machine& machine, unsigned streams) {
  return std::make_unique<CubSubject>(machine, streams);
}

}  // namespace millrace::bench
