#include "allocator/subjects/cccl/calls.hpp"

// After calls.hpp:
#include <thrust/mr/disjoint_pool.h>
#include <thrust/mr/disjoint_sync_pool.h>
#include <thrust/mr/new.h>

#include <new>

#include "allocator/subjects/peer.hpp"

namespace millrace::bench {
namespace {

struct DeviceMemory final : thrust::mr::memory_resource<> {
  void* do_allocate(std::size_t bytes, std::size_t) override {
    void* address = nullptr;
    if (cudaMalloc(&address, bytes) != cudaSuccess) throw std::bad_alloc{};
    return address;
  }
  void do_deallocate(void* address, std::size_t, std::size_t) override { cudaFree(address); }
};

/// Thrust knows no streams. With more than one stream, the program synchronizes the device before
/// each free.
template <typename Pool>
class ThrustSubject final : public Peer {
 public:
  using Peer::Peer;

  void* allocate(std::size_t bytes, unsigned stream) override {
    (void)handle(stream);
    return pool_.do_allocate(bytes, kAlignment);
  }
  void free(void* address, std::size_t bytes, unsigned stream) override {
    if (stream_count() > 1) driver().synchronize(handle(stream));
    pool_.do_deallocate(address, bytes, kAlignment);
  }

 private:
  static constexpr std::size_t kAlignment = 256;

  DeviceMemory memory_;
  thrust::mr::new_delete_resource host_;
  Pool pool_{&memory_, &host_};
};

using Unlocked = thrust::mr::disjoint_unsynchronized_pool_resource<DeviceMemory,
                                                                   thrust::mr::new_delete_resource>;
using Locked =
    thrust::mr::disjoint_synchronized_pool_resource<DeviceMemory, thrust::mr::new_delete_resource>;

}  // namespace

std::unique_ptr<Subject> make_thrust_pool(Machine& machine, unsigned streams) {
  return std::make_unique<ThrustSubject<Unlocked>>(machine, streams);
}

std::unique_ptr<Subject> make_thrust_locked_pool(Machine& machine, unsigned streams) {
  return std::make_unique<ThrustSubject<Locked>>(machine, streams);
}

}  // namespace millrace::bench
