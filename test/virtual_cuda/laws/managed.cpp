// Advice about managed memory, and the attributes that the runtime reports for it.

#include <rapidcheck.h>

#include <array>

#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

constexpr std::size_t kPage = 4096;
constexpr cudaMemLocation kHost{cudaMemLocationTypeHost, 0};

cudaMemLocation gpu(int device) { return {cudaMemLocationTypeDevice, device}; }

class Managed {
 public:
  explicit Managed(std::size_t bytes) {
    CUDA_OK(cudaMallocManaged(&address_, bytes, cudaMemAttachGlobal));
  }
  ~Managed() { cudaFree(address_); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  [[nodiscard]] char* get() const { return static_cast<char*>(address_); }

 private:
  void* address_ = nullptr;
};

int told(const void* address, std::size_t bytes, cudaMemRangeAttribute which) {
  int value = 12345;
  CUDA_OK(cudaMemRangeGetAttribute(&value, sizeof value, which, address, bytes));
  return value;
}

std::array<int, 3> accessed_by(const void* address, std::size_t bytes) {
  std::array<int, 3> devices{};
  CUDA_OK(cudaMemRangeGetAttribute(devices.data(), sizeof devices, cudaMemRangeAttributeAccessedBy,
                                   address, bytes));
  return devices;
}

}  // namespace

TEST_CASE("an attribute of managed memory is the advice that all of its pages have") {
  CUDA_OK(cudaSetDevice(0));
  const Managed memory{4 * kPage};
  char* const all = memory.get();
  CHECK(told(all, kPage, cudaMemRangeAttributeReadMostly) == 0);
  CHECK(told(all, kPage, cudaMemRangeAttributePreferredLocation) == cudaInvalidDeviceId);
  CHECK(accessed_by(all, kPage) ==
        std::array{cudaInvalidDeviceId, cudaInvalidDeviceId, cudaInvalidDeviceId});

  CUDA_OK(cudaMemAdvise(all, 2 * kPage, cudaMemAdviseSetReadMostly, kHost));
  CHECK(told(all, 2 * kPage, cudaMemRangeAttributeReadMostly) == 1);
  CHECK(told(all + kPage, 2 * kPage, cudaMemRangeAttributeReadMostly) == 0);
  CUDA_OK(cudaMemAdvise(all, kPage, cudaMemAdviseUnsetReadMostly, kHost));
  CHECK(told(all, 2 * kPage, cudaMemRangeAttributeReadMostly) == 0);
  CHECK(told(all + kPage, kPage, cudaMemRangeAttributeReadMostly) == 1);

  CUDA_OK(cudaMemAdvise(all, 4 * kPage, cudaMemAdviseSetPreferredLocation, gpu(0)));
  CHECK(told(all, 4 * kPage, cudaMemRangeAttributePreferredLocation) == 0);
  CHECK(told(all, 4 * kPage, cudaMemRangeAttributePreferredLocationType) ==
        cudaMemLocationTypeDevice);
  CHECK(told(all, 4 * kPage, cudaMemRangeAttributePreferredLocationId) == 0);
  CUDA_OK(cudaMemAdvise(all + kPage, kPage, cudaMemAdviseSetPreferredLocation, kHost));
  CHECK(told(all, 4 * kPage, cudaMemRangeAttributePreferredLocation) == cudaInvalidDeviceId);
  CHECK(told(all + kPage, kPage, cudaMemRangeAttributePreferredLocation) == cudaCpuDeviceId);
  CUDA_OK(cudaMemAdvise(all, kPage, cudaMemAdviseUnsetPreferredLocation, kHost));
  CHECK(told(all, kPage, cudaMemRangeAttributePreferredLocation) == cudaInvalidDeviceId);

  CUDA_OK(cudaMemAdvise(all, 2 * kPage, cudaMemAdviseSetAccessedBy, gpu(0)));
  CUDA_OK(cudaMemAdvise(all, kPage, cudaMemAdviseSetAccessedBy, kHost));
  CHECK(accessed_by(all, kPage) == std::array{0, cudaCpuDeviceId, cudaInvalidDeviceId});
  CHECK(accessed_by(all, 2 * kPage) == std::array{0, cudaInvalidDeviceId, cudaInvalidDeviceId});
  CUDA_OK(cudaMemAdvise(all, 2 * kPage, cudaMemAdviseUnsetAccessedBy, gpu(0)));
  CHECK(accessed_by(all + kPage, kPage)[0] == cudaInvalidDeviceId);
}

TEST_CASE("managed memory reports its last prefetch location") {
  CUDA_OK(cudaSetDevice(0));
  const Stream stream;
  const Managed memory{3 * kPage};
  char* const all = memory.get();
  CHECK(told(all, kPage, cudaMemRangeAttributeLastPrefetchLocation) == cudaInvalidDeviceId);
  CUDA_OK(cudaMemPrefetchAsync(all, 2 * kPage, gpu(0), 0, stream));
  CHECK(told(all, 2 * kPage, cudaMemRangeAttributeLastPrefetchLocation) == 0);
  CHECK(told(all, 3 * kPage, cudaMemRangeAttributeLastPrefetchLocation) == cudaInvalidDeviceId);

  void* ranges[] = {all, all + kPage, all + 2 * kPage};
  std::size_t bytes[] = {kPage, kPage, kPage};
  cudaMemLocation places[] = {gpu(0), kHost};
  std::size_t firsts[] = {0, 1};
  CUDA_OK(cudaMemPrefetchBatchAsync(ranges, bytes, 3, places, firsts, 2, 0, stream));
  CHECK(told(all, kPage, cudaMemRangeAttributeLastPrefetchLocation) == 0);
  CHECK(told(all + kPage, 2 * kPage, cudaMemRangeAttributeLastPrefetchLocation) == cudaCpuDeviceId);
  CHECK(told(all + kPage, kPage, cudaMemRangeAttributeLastPrefetchLocationType) ==
        cudaMemLocationTypeHost);
  CUDA_OK(cudaMemDiscardBatchAsync(ranges, bytes, 3, 0, stream));
  firsts[1] = 2;
  CUDA_OK(cudaMemDiscardAndPrefetchBatchAsync(ranges, bytes, 3, places, firsts, 2, 0, stream));
  CHECK(told(all + kPage, kPage, cudaMemRangeAttributeLastPrefetchLocation) == 0);

  const auto refuses = [&](std::size_t count, std::size_t locations) {
    const cudaError_t error =
        cudaMemPrefetchBatchAsync(ranges, bytes, count, places, firsts, locations, 0, stream);
    static_cast<void>(cudaGetLastError());
    return error == cudaErrorInvalidValue;
  };
  CHECK(refuses(0, 1));
  CHECK(refuses(3, 0));
  CHECK(refuses(1, 2));
  firsts[0] = 1;
  CHECK(refuses(3, 2));
  firsts[0] = 0;
  firsts[1] = 3;
  CHECK(refuses(3, 2));
  CUDA_OK(cudaStreamSynchronize(stream));
}

TEST_CASE("advice, queries and prefetches are refused for other than managed memory") {
  CUDA_OK(cudaSetDevice(0));
  const Stream stream;
  const Managed memory{2 * kPage};
  const DeviceBlock device{kPage};
  int value = 0;
  const auto refused = [](cudaError_t error) {
    static_cast<void>(cudaGetLastError());
    return error == cudaErrorInvalidValue;
  };
  for (const void* const other :
       {static_cast<const void*>(device.get()), static_cast<const void*>(&value)}) {
    CHECK(refused(cudaMemAdvise(other, 1, cudaMemAdviseSetReadMostly, kHost)));
    CHECK(refused(cudaMemPrefetchAsync(other, 1, gpu(0), 0, stream)));
    CHECK(refused(
        cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, other, 1)));
  }
  CHECK(refused(cudaMemAdvise(memory.get(), 3 * kPage, cudaMemAdviseSetReadMostly, kHost)));
  CHECK(refused(cudaMemPrefetchAsync(memory.get(), 3 * kPage, gpu(0), 0, stream)));
  CHECK(refused(
      cudaMemRangeGetAttribute(&value, 3, cudaMemRangeAttributeReadMostly, memory.get(), 1)));
  CHECK(cudaMemPrefetchAsync(memory.get(), 1, gpu(99), 0, stream) == cudaErrorInvalidDevice);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("driver and runtime report the same about managed memory") {
  CUDA_OK(cudaSetDevice(0));
  const Stream stream;
  const Managed memory{2 * kPage};
  const CUdeviceptr address = address_of(memory.get());
  DRIVER_OK("cuMemAdvise", address, kPage, 1, cudaMemLocation{cudaMemLocationTypeDevice, 0});
  CHECK(told(memory.get(), kPage, cudaMemRangeAttributeReadMostly) == 1);
  DRIVER_OK("cuMemPrefetchAsync", address, 2 * kPage, kHost, 0U, static_cast<cudaStream_t>(stream));
  int where = 0;
  int mostly = 0;
  void* values[] = {&where, &mostly};
  std::size_t rooms[] = {sizeof where, sizeof mostly};
  int which[] = {4, 1};
  DRIVER_OK("cuMemRangeGetAttributes", static_cast<void**>(values),
            static_cast<std::size_t*>(rooms), static_cast<int*>(which), std::size_t{2}, address,
            2 * kPage);
  CHECK(where == cudaCpuDeviceId);
  CHECK(mostly == 0);  // the second page differs
  CUdeviceptr ranges[] = {address, address + kPage};
  std::size_t bytes[] = {kPage, kPage};
  cudaMemLocation places[] = {gpu(0)};
  std::size_t firsts[] = {0};
  DRIVER_OK("cuMemPrefetchBatchAsync", static_cast<CUdeviceptr*>(ranges),
            static_cast<std::size_t*>(bytes), std::size_t{2}, static_cast<cudaMemLocation*>(places),
            static_cast<std::size_t*>(firsts), std::size_t{1}, 0ULL,
            static_cast<cudaStream_t>(stream));
  CHECK(told(memory.get(), 2 * kPage, cudaMemRangeAttributeLastPrefetchLocation) == 0);
}

TEST_CASE("advice agrees with a model that keeps it per page") {
  rc::check([] {
    constexpr int kPages = 12;
    const Managed memory{kPages * kPage};
    std::array<bool, kPages> mostly{};
    std::array<int, kPages> preferred{};
    preferred.fill(cudaInvalidDeviceId);
    for (int step = 0; step < 30; ++step) {
      const int first = *rc::gen::inRange(0, kPages);
      const int count = *rc::gen::inRange(1, kPages - first + 1);
      char* const begin = memory.get() + static_cast<std::size_t>(first) * kPage;
      const std::size_t bytes = static_cast<std::size_t>(count) * kPage - 17;
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
        case 1: {
          const bool set = *rc::gen::arbitrary<bool>();
          CUDA_OK(cudaMemAdvise(begin, bytes,
                                set ? cudaMemAdviseSetReadMostly : cudaMemAdviseUnsetReadMostly,
                                kHost));
          for (int i = first; i < first + count; ++i) mostly[static_cast<std::size_t>(i)] = set;
          break;
        }
        case 2: {
          const bool host = *rc::gen::arbitrary<bool>();
          CUDA_OK(cudaMemAdvise(begin, bytes, cudaMemAdviseSetPreferredLocation,
                                host ? kHost : gpu(0)));
          for (int i = first; i < first + count; ++i)
            preferred[static_cast<std::size_t>(i)] = host ? cudaCpuDeviceId : 0;
          break;
        }
        default: {
          int all_mostly = 1;
          int where = preferred[static_cast<std::size_t>(first)];
          for (int i = first; i < first + count; ++i) {
            if (!mostly[static_cast<std::size_t>(i)]) all_mostly = 0;
            if (preferred[static_cast<std::size_t>(i)] != where) where = cudaInvalidDeviceId;
          }
          RC_ASSERT(told(begin, bytes, cudaMemRangeAttributeReadMostly) == all_mostly);
          RC_ASSERT(told(begin, bytes, cudaMemRangeAttributePreferredLocation) == where);
        }
      }
    }
  });
}
