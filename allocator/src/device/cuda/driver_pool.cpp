#include "device/cuda/error.hpp"
#include "device/cuda/runtime.hpp"

namespace millrace::cuda {

UniquePool make_pool(int ordinal, const DriverPoolPolicy& policy) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location = {};
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  cudaMemPool_t created = nullptr;
  check(cudaMemPoolCreate(&created, &properties), "cudaMemPoolCreate", ordinal);
  UniquePool pool{created};
  const auto set = [&](cudaMemPoolAttr what, auto value) {
    check(cudaMemPoolSetAttribute(pool.get(), what, &value), "cudaMemPoolSetAttribute", what,
          value);
  };
  set(cudaMemPoolReuseFollowEventDependencies, int{policy.follow_event_dependencies});
  set(cudaMemPoolReuseAllowOpportunistic, int{policy.allow_opportunistic});
  set(cudaMemPoolReuseAllowInternalDependencies, int{policy.allow_internal_dependencies});
  set(cudaMemPoolAttrReleaseThreshold, cuuint64_t{policy.release_threshold});
  return pool;
}

void allow_pool_to(cudaMemPool_t pool, int ordinal) {
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = ordinal;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  check(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess", ordinal);
}

cudaMemPool_t Runtime::pool() const {
  if (pool_ != nullptr) return pool_.get();
  throw DeviceError{ErrorCode::not_supported, name(),
                    "this GPU or its driver has no stream-ordered pools (cudaMallocAsync)"};
}

void* Runtime::do_allocate_async(std::size_t bytes, StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaMallocFromPoolAsync");
  void* address = nullptr;
  check(cudaMallocFromPoolAsync(&address, bytes, pool(), native(stream)), "cudaMallocFromPoolAsync",
        bytes, stream.value);
  return address;
}

void Runtime::do_free_async(void* address, StreamHandle stream) {
  const CurrentContext current = enter();
  refuse_captured(stream, "cudaFreeAsync");
  check_released(cudaFreeAsync(address, native(stream)), "cudaFreeAsync", address, stream.value);
}

void Runtime::do_trim_pool(std::size_t keep_bytes) {
  if (pool_ == nullptr) return;
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check(cudaMemPoolTrimTo(pool(), keep_bytes), "cudaMemPoolTrimTo", keep_bytes);
}

DriverPoolInfo Runtime::pool_info() {
  const CurrentContext current = enter();
  const auto get = [this](cudaMemPoolAttr what) {
    cuuint64_t value = 0;
    check(cudaMemPoolGetAttribute(pool(), what, &value), "cudaMemPoolGetAttribute", what);
    return static_cast<std::size_t>(value);
  };
  return {get(cudaMemPoolAttrReservedMemCurrent), get(cudaMemPoolAttrReservedMemHigh),
          get(cudaMemPoolAttrUsedMemCurrent), get(cudaMemPoolAttrUsedMemHigh)};
}

}  // namespace millrace::cuda
