#include <cstring>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

TEST_CASE("a pageable source may change as soon as the copy's call has returned") {
  const Stream stream;
  const DeviceBlock block{4096};
  std::vector<unsigned char> source = all(4096, 4);
  CUDA_OK(cudaMemcpyAsync(block.get(), source.data(), 4096, cudaMemcpyHostToDevice, stream));
  std::memset(source.data(), 5, source.size());
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(block) == all(4096, 4));
}

TEST_CASE("a pinned source that changes before its copy runs is copied with the change") {
  const Stream stream;
  const DeviceBlock block{64};
  const PinnedBlock source{64};
  std::memset(source.get(), 4, 64);
  CUDA_OK(cudaMemcpyAsync(block.get(), source.get(), 64, cudaMemcpyHostToDevice, stream));
  std::memset(source.get(), 5, 64);
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(block) == all(64, deferred() ? 5 : 4));
}

TEST_CASE("a copy to pageable memory has taken effect when its call returns") {
  const Stream stream;
  const DeviceBlock block{64};
  std::vector<unsigned char> seen(64);
  CUDA_OK(cudaMemsetAsync(block.get(), 3, 64, stream));
  CUDA_OK(cudaMemcpyAsync(seen.data(), block.get(), 64, cudaMemcpyDeviceToHost, stream));
  CHECK(seen == all(64, 3));
}

TEST_CASE("a registered range is pinned memory until it is unregistered") {
  const Stream stream;
  const DeviceBlock block{64};
  std::vector<unsigned char> seen(64);
  CUDA_OK(cudaHostRegister(seen.data(), seen.size(), cudaHostRegisterDefault));
  CHECK(cudaHostRegister(seen.data(), 1, cudaHostRegisterDefault) ==
        cudaErrorHostMemoryAlreadyRegistered);
  CUDA_OK(cudaMemsetAsync(block.get(), 3, 64, stream));
  CUDA_OK(cudaMemcpyAsync(seen.data(), block.get(), 64, cudaMemcpyDeviceToHost, stream));
  CHECK(seen == all(64, deferred() ? 0 : 3));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen == all(64, 3));
  CHECK(cudaHostUnregister(seen.data() + 1) == cudaErrorInvalidValue);
  CUDA_OK(cudaHostUnregister(seen.data()));
  CHECK(cudaHostUnregister(seen.data()) == cudaErrorHostMemoryNotRegistered);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("rows and boxes are copied and filled without the bytes between them") {
  constexpr std::size_t kPitch = 16;
  const DeviceBlock block{kPitch * 12};
  CUDA_OK(cudaMemset(block.get(), 0, block.bytes()));
  CUDA_OK(cudaMemset2D(block.get(), kPitch, 1, 4, 3));
  const cudaPitchedPtr box{block.get() + 4, kPitch, kPitch, 4};
  CUDA_OK(cudaMemset3D(box, 2, {4, 2, 3}));
  std::vector<unsigned char> seen(kPitch * 12);
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = {block.get(), kPitch, kPitch, 4};
  parameters.dstPtr = {seen.data(), kPitch, kPitch, 4};
  parameters.extent = {kPitch, 4, 3};
  parameters.kind = cudaMemcpyDeviceToHost;
  CUDA_OK(cudaMemcpy3D(&parameters));
  for (std::size_t z = 0; z < 3; ++z)
    for (std::size_t y = 0; y < 4; ++y)
      for (std::size_t x = 0; x < kPitch; ++x) {
        const int row = x < 4 && z == 0 && y < 3 ? 1 : 0;
        const int layer = x >= 4 && x < 8 && y < 2 ? 2 : 0;
        CHECK(seen[x + kPitch * (y + 4 * z)] == row + layer);
      }
  std::vector<unsigned char> rows(8);
  CUDA_OK(cudaMemcpy2D(rows.data(), 4, block.get(), kPitch, 4, 2, cudaMemcpyDeviceToHost));
  CHECK(rows == all(8, 1));
  CHECK(cudaMemcpy2D(rows.data(), 2, block.get(), kPitch, 4, 2, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidPitchValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a copy whose direction contradicts its addresses is refused") {
  const DeviceBlock block{64};
  std::vector<unsigned char> host(64);
  for (const cudaMemcpyKind kind : {cudaMemcpyHostToHost, cudaMemcpyDeviceToHost})
    CHECK(cudaMemcpy(block.get(), host.data(), 64, kind) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), block.get(), 64, cudaMemcpyDeviceToDevice) ==
        cudaErrorInvalidValue);
  CUDA_OK(cudaMemcpy(block.get(), host.data(), 64, cudaMemcpyDefault));
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("pointer attributes have the type of the memory, and no type after its free") {
  cudaPointerAttributes found{};
  void* device = nullptr;
  CUDA_OK(cudaMalloc(&device, 1 << 20));
  CUDA_OK(cudaPointerGetAttributes(&found, static_cast<char*>(device) + 1000));
  CHECK(found.type == cudaMemoryTypeDevice);
  CHECK(found.device == 0);
  CHECK(found.hostPointer == nullptr);
  CUDA_OK(cudaFree(device));
  CUDA_OK(cudaPointerGetAttributes(&found, device));
  CHECK(found.type == cudaMemoryTypeUnregistered);
  {
    const PinnedBlock pinned{64};
    CUDA_OK(cudaPointerGetAttributes(&found, pinned.get() + 63));
    CHECK(found.type == cudaMemoryTypeHost);
    CHECK(found.hostPointer == pinned.get() + 63);
    void* mapped = nullptr;
    CUDA_OK(cudaHostGetDevicePointer(&mapped, pinned.get(), 0));
    CHECK(static_cast<unsigned char*>(mapped) + 63 == found.devicePointer);
  }
  void* managed = nullptr;
  CUDA_OK(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal));
  CUDA_OK(cudaPointerGetAttributes(&found, managed));
  CHECK(found.type == cudaMemoryTypeManaged);
  static_cast<char*>(managed)[0] = 1;  // the host can access it
  CUDA_OK(cudaFree(managed));
  int local = 0;
  CUDA_OK(cudaPointerGetAttributes(&found, &local));
  CHECK(found.type == cudaMemoryTypeUnregistered);
}

TEST_CASE("freed memory is available again, and more than the total is refused") {
  std::size_t before = 0;
  std::size_t total = 0;
  std::size_t now = 0;
  CUDA_OK(cudaMemGetInfo(&before, &total));
  void* half = nullptr;
  void* other = nullptr;
  const std::size_t bytes = total / 2 / kUnit * kUnit;
  CUDA_OK(cudaMalloc(&half, bytes));
  CUDA_OK(cudaMemGetInfo(&now, &total));
  CHECK(before - now == bytes);
  CHECK(cudaMalloc(&other, total - bytes + 1) == cudaErrorMemoryAllocation);
  CHECK(other == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CUDA_OK(cudaFree(half));
  CUDA_OK(cudaMemGetInfo(&now, &total));
  CHECK(now == before);
  CHECK(cudaFree(half) == cudaErrorInvalidValue);
  CUDA_OK(cudaFree(nullptr));
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("memory belongs to one GPU and can be copied to another") {
  needs_two_gpus();
  int count = 0;
  CUDA_OK(cudaGetDeviceCount(&count));
  REQUIRE((is_virtual() ? count == 2 : count >= 2));
  int possible = 0;
  CUDA_OK(cudaDeviceCanAccessPeer(&possible, 0, 1));
  CHECK(possible == 1);
  void* there = nullptr;
  CUDA_OK(cudaSetDevice(1));
  CUDA_OK(cudaMalloc(&there, 64));
  CUDA_OK(cudaMemset(there, 9, 64));
  CUDA_OK(cudaDeviceSynchronize());
  cudaPointerAttributes found{};
  CUDA_OK(cudaPointerGetAttributes(&found, there));
  CHECK(found.device == 1);
  CUDA_OK(cudaSetDevice(0));
  const DeviceBlock here{64};
  CUDA_OK(cudaMemcpyPeer(here.get(), 0, there, 1, 64));
  CHECK(read(here) == all(64, 9));
  CUDA_OK(cudaFree(there));
  CHECK(cudaSetDevice(count) == cudaErrorInvalidDevice);
  CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  CUDA_OK(cudaDeviceDisablePeerAccess(1));
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a GPU's properties and attributes agree, and its bus id finds it") {
  needs_two_gpus();
  cudaDeviceProp all{};
  CUDA_OK(cudaGetDeviceProperties(&all, 1));
  int value = 0;
  CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1));
  CHECK(value == all.multiProcessorCount);
  CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1));
  CHECK(value == all.major);
  CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 1));
  CHECK(static_cast<std::size_t>(value) == all.sharedMemPerBlockOptin);
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&free, &total));
  CHECK(total == all.totalGlobalMem);
  char bus[32];
  CUDA_OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
  CUDA_OK(cudaDeviceGetByPCIBusId(&value, bus));
  CHECK(value == 1);
}
