// The driver's functions, which use the same machine as the runtime's functions.

#include "test/virtual_cuda/laws/driver.hpp"

#include <rapidcheck.h>

#include <array>
#include <cstring>
#include <thread>

using namespace millrace::test;

namespace {

CUcontext current() {
  CUcontext context = nullptr;
  DRIVER_OK("cuCtxGetCurrent", &context);
  return context;
}

CUcontext primary(int device) {
  CUcontext context = nullptr;
  DRIVER_OK("cuDevicePrimaryCtxRetain", &context, device);
  DRIVER_OK("cuDevicePrimaryCtxRelease", device);
  return context;
}

/// Runs `body` in a thread that has no context.
template <typename Body>
void in_a_new_thread(Body body) {
  std::thread{body}.join();
}

int pick(int least, int most) { return *rc::gen::inRange(least, most + 1); }

}  // namespace

TEST_CASE("memory of the driver is memory of the runtime, and vice versa") {
  CUDA_OK(cudaSetDevice(0));
  CUdeviceptr made = 0;
  DRIVER_OK("cuMemAlloc", &made, std::size_t{1000});
  auto* const pointer = reinterpret_cast<void*>(made);
  cudaPointerAttributes known{};
  CUDA_OK(cudaPointerGetAttributes(&known, pointer));
  CHECK(known.type == cudaMemoryTypeDevice);
  DRIVER_OK("cuMemsetD8", made, static_cast<unsigned char>(7), std::size_t{1000});
  CHECK(read(pointer, 1000) == all(1000, 7));
  CUDA_OK(cudaFree(pointer));
  CHECK(driver("cuMemFree", made) == kInvalidValue);

  const DeviceBlock block{64};
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  DRIVER_OK("cuMemGetAddressRange", &base, &bytes, address_of(block.get() + 63));
  CHECK(base == address_of(block.get()));
  CHECK(bytes >= 64);
  unsigned type = 0;
  DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&type), 2, address_of(block.get()));
  CHECK(type == 2);  // device
  int on_host = 0;
  CHECK(driver("cuPointerGetAttribute", static_cast<void*>(&type), 2, address_of(&on_host)) ==
        kInvalidValue);
}

TEST_CASE("runtime and driver share streams and events") {
  const Stream producer;
  const Stream consumer;
  const Event event;
  const DeviceBlock block{256};
  const PinnedBlock seen{256};
  CUDA_OK(cudaMemset(block.get(), 0, 256));
  CUDA_OK(cudaDeviceSynchronize());
  std::memset(seen.get(), 0, 256);
  DRIVER_OK("cuMemsetD8Async", address_of(block.get()), static_cast<unsigned char>(9),
            std::size_t{256}, static_cast<CUstream>(producer));
  CUDA_OK(cudaEventRecord(event, producer));
  DRIVER_OK("cuStreamWaitEvent", static_cast<CUstream>(consumer), static_cast<CUevent>(event), 0U);
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 256, cudaMemcpyDeviceToHost, consumer));
  DRIVER_OK("cuStreamSynchronize", static_cast<CUstream>(consumer));
  CHECK(seen[255] == 9);
  CHECK(driver("cuEventQuery", static_cast<CUevent>(event)) == 0);
}

TEST_CASE("an event of a context is ordered after all work of the context") {
  const Stream first;
  const Stream second;
  const Event event;
  const DeviceBlock block{2};
  const PinnedBlock seen{2};
  const CUcontext context = primary(0);
  CUDA_OK(cudaMemset(block.get(), 0, 2));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaMemsetAsync(block.get(), 5, 1, first));
  CUDA_OK(cudaMemsetAsync(block.get() + 1, 6, 1, second));
  DRIVER_OK("cuCtxRecordEvent", context, static_cast<CUevent>(event));
  CUDA_OK(cudaEventSynchronize(event));
  const Stream third;
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 2, cudaMemcpyDeviceToHost, third));
  CUDA_OK(cudaStreamSynchronize(third));
  CHECK((seen[0] == 5 && seen[1] == 6));

  CUDA_OK(cudaMemsetAsync(block.get(), 7, 2, first));
  CUDA_OK(cudaEventRecord(event, first));
  DRIVER_OK("cuCtxWaitEvent", context, static_cast<CUevent>(event));
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 2, cudaMemcpyDeviceToHost, second));
  CUDA_OK(cudaStreamSynchronize(second));
  CHECK((seen[0] == 7 && seen[1] == 7));
}

TEST_CASE("a thread without a context is refused, and the runtime sets the primary context") {
  needs_two_gpus();
  in_a_new_thread([] {
    CUdeviceptr made = 0;
    CHECK(current() == nullptr);
    CHECK(driver("cuMemAlloc", &made, std::size_t{64}) == kInvalidContext);
    CHECK(driver("cuCtxSynchronize", CUcontext{}) == kInvalidContext);
    CUDA_OK(cudaSetDevice(1));
    CHECK(current() == primary(1));
    DRIVER_OK("cuMemAlloc", &made, std::size_t{64});
    int device = -1;
    DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&device), 9, made);
    CHECK(device == 1);
    DRIVER_OK("cuMemFree", made);
  });
}

TEST_CASE("contexts of a thread are a stack whose top decides the runtime's device") {
  needs_two_gpus();
  in_a_new_thread([] {
    rc::check([] {
      std::vector<CUcontext> stack;
      std::vector<CUcontext> made;
      DRIVER_OK("cuCtxSetCurrent", CUcontext{});
      const auto some_context = [&] {
        const int which = pick(0, static_cast<int>(made.size()) + 1);
        return which < 2 ? primary(which) : made[static_cast<std::size_t>(which) - 2];
      };
      for (int step = 0; step < 20; ++step) {
        switch (pick(0, 4)) {
          case 0: {
            CUcontext context = nullptr;
            DRIVER_OK("cuCtxCreate", &context, static_cast<void*>(nullptr), 0U, pick(0, 1));
            made.push_back(context);
            stack.push_back(context);
            break;
          }
          case 1:
            stack.push_back(some_context());
            DRIVER_OK("cuCtxPushCurrent", stack.back());
            break;
          case 2: {
            CUcontext popped = nullptr;
            const int expected = stack.empty() ? kInvalidContext : 0;
            REQUIRE(driver("cuCtxPopCurrent", &popped) == expected);
            if (stack.empty()) break;
            CHECK(popped == stack.back());
            stack.pop_back();
            break;
          }
          case 3: {
            const CUcontext context = some_context();
            DRIVER_OK("cuCtxSetCurrent", context);
            if (!stack.empty()) stack.pop_back();
            stack.push_back(context);
            break;
          }
          default: {
            const int device = pick(0, 1);
            CUDA_OK(cudaSetDevice(device));
            if (!stack.empty()) stack.pop_back();
            stack.push_back(primary(device));
          }
        }
        REQUIRE(current() == (stack.empty() ? nullptr : stack.back()));
        if (stack.empty()) continue;
        int of_driver = -1;
        int of_runtime = -1;
        DRIVER_OK("cuCtxGetDevice", &of_driver, CUcontext{});
        CUDA_OK(cudaGetDevice(&of_runtime));
        REQUIRE(of_driver == of_runtime);
      }
      while (!stack.empty()) {
        CUcontext popped = nullptr;
        DRIVER_OK("cuCtxPopCurrent", &popped);
        CHECK(popped == stack.back());
        stack.pop_back();
      }
      for (const CUcontext context : made) DRIVER_OK("cuCtxDestroy", context);
    });
  });
}

TEST_CASE("a destroyed context cannot be pushed again") {
  only_virtual("NVIDIA's driver pushes a destroyed context, and the process ends later");
  in_a_new_thread([] {
    CUcontext popped = nullptr;
    for (const int device : {0, 1}) {
      std::array<CUcontext, 3> made{};
      for (CUcontext& context : made)
        DRIVER_OK("cuCtxCreate", &context, static_cast<void*>(nullptr), 0U, device);
      for (std::size_t i = 0; i < made.size(); ++i) DRIVER_OK("cuCtxPopCurrent", &popped);
      for (const CUcontext context : made) {
        DRIVER_OK("cuCtxPushCurrent", context);
        DRIVER_OK("cuCtxPopCurrent", &popped);
        DRIVER_OK("cuCtxDestroy", context);
        CHECK(driver("cuCtxPushCurrent", context) == kContextIsDestroyed);
        CHECK(current() == nullptr);
      }
    }
  });
}

TEST_CASE("a primary context is active until it is released as often as it was retained") {
  needs_two_gpus();
  in_a_new_thread([] {
    const auto active = [](int device) {
      unsigned flags = 0;
      int found = -1;
      DRIVER_OK("cuDevicePrimaryCtxGetState", device, &flags, &found);
      return found == 1;
    };
    DRIVER_OK("cuDevicePrimaryCtxReset", 1);
    CHECK_FALSE(active(1));
    CUcontext context = nullptr;
    DRIVER_OK("cuDevicePrimaryCtxRetain", &context, 1);
    DRIVER_OK("cuDevicePrimaryCtxRetain", &context, 1);
    CHECK(active(1));
    DRIVER_OK("cuDevicePrimaryCtxRelease", 1);
    CHECK(active(1));
    DRIVER_OK("cuDevicePrimaryCtxRelease", 1);
    CHECK_FALSE(active(1));
    CHECK(driver("cuDevicePrimaryCtxRelease", 1) == kInvalidContext);
    CUDA_OK(cudaSetDevice(1));  // the runtime makes the context active
    CHECK(active(1));
    DRIVER_OK("cuDevicePrimaryCtxRetain", &context, 1);
    DRIVER_OK("cuDevicePrimaryCtxRelease", 1);
    CHECK(active(1));
    DRIVER_OK("cuDevicePrimaryCtxSetFlags", 1, 4U);
    unsigned flags = 0;
    DRIVER_OK("cuCtxGetFlags", &flags);
    CHECK(flags == 4);
    DRIVER_OK("cuDevicePrimaryCtxSetFlags", 1, 0U);
  });
}

TEST_CASE("the driver fills elements of 2 and 4 bytes, also in rows") {
  const Stream stream;
  const DeviceBlock block{64};
  const CUdeviceptr at = address_of(block.get());
  CUDA_OK(cudaMemset(block.get(), 0, 64));
  CUDA_OK(cudaDeviceSynchronize());
  const auto handle = static_cast<CUstream>(stream);
  DRIVER_OK("cuMemsetD32Async", at, 0x04030201U, std::size_t{2}, handle);
  DRIVER_OK("cuMemsetD16Async", at + 8, static_cast<unsigned short>(0x0605), std::size_t{2},
            handle);
  DRIVER_OK("cuMemsetD2D16Async", at + 16, std::size_t{8}, static_cast<unsigned short>(0x0807),
            std::size_t{2}, std::size_t{2}, handle);
  DRIVER_OK("cuStreamSynchronize", handle);
  const std::vector<unsigned char> found = read(block.get(), 32);
  const std::vector<unsigned char> expected{1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 5, 6, 0, 0, 0, 0,
                                            7, 8, 7, 8, 0, 0, 0, 0, 7, 8, 7, 8, 0, 0, 0, 0};
  CHECK(found == expected);
  CHECK(driver("cuMemsetD32Async", at + 1, 0U, std::size_t{1}, handle) == kInvalidValue);
  CHECK(driver("cuMemsetD2D16Async", at, std::size_t{2}, static_cast<unsigned short>(0),
               std::size_t{2}, std::size_t{2}, handle) == kInvalidValue);
}

TEST_CASE("a box copied by the driver agrees with a loop over its bytes") {
  rc::check([] {
    const Stream stream;
    constexpr std::size_t kSide = 12;
    constexpr std::size_t kBytes = kSide * kSide * kSide;
    std::vector<unsigned char> source(kBytes);
    for (unsigned char& byte : source) byte = static_cast<unsigned char>(pick(1, 255));
    const DeviceBlock block{kBytes};
    CUDA_OK(cudaMemset(block.get(), 0, kBytes));
    CUDA_OK(cudaDeviceSynchronize());
    const auto size = [&] { return static_cast<std::size_t>(pick(1, 6)); };
    CUDA_MEMCPY3D box{};
    box.srcMemoryType = CU_MEMORYTYPE_HOST;
    box.srcHost = source.data();
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = address_of(block.get());
    box.srcPitch = box.srcHeight = box.dstPitch = box.dstHeight = kSide;
    box.srcXInBytes = size();
    box.srcY = size();
    box.srcZ = size();
    box.dstXInBytes = size();
    box.dstY = size();
    box.dstZ = size();
    box.WidthInBytes = size();
    box.Height = size();
    box.Depth = size();
    DRIVER_OK("cuMemcpy3DAsync", static_cast<const CUDA_MEMCPY3D*>(&box),
              static_cast<CUstream>(stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    std::vector<unsigned char> expected(kBytes);
    for (std::size_t z = 0; z < box.Depth; ++z)
      for (std::size_t y = 0; y < box.Height; ++y)
        for (std::size_t x = 0; x < box.WidthInBytes; ++x)
          expected[((box.dstZ + z) * kSide + box.dstY + y) * kSide + box.dstXInBytes + x] =
              source[((box.srcZ + z) * kSide + box.srcY + y) * kSide + box.srcXInBytes + x];
    RC_ASSERT(read(block) == expected);
  });
}

TEST_CASE("rows without a pitch are packed, and a pitch below the width is refused") {
  const DeviceBlock block{64};
  std::array<unsigned char, 12> source{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = source.data();
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = address_of(block.get());
  rows.WidthInBytes = 4;
  rows.Height = 3;
  DRIVER_OK("cuMemcpy2D", static_cast<const CUDA_MEMCPY2D*>(&rows));
  CHECK(read(block.get(), 12) == std::vector<unsigned char>(source.begin(), source.end()));
  rows.dstPitch = 3;
  CHECK(driver("cuMemcpy2D", static_cast<const CUDA_MEMCPY2D*>(&rows)) == kInvalidValue);
}

TEST_CASE("a copy from or to a null CUDA array is refused") {
  const Stream stream;
  const DeviceBlock block{64};
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  DRIVER_OK("cuGraphCreate", &graph, 0U);
  // True if every function that copies returns `error` for this box of one row.
  const auto all_return = [&](const CUDA_MEMCPY3D& box, int error) {
    CUDA_MEMCPY2D rows{};
    rows.srcMemoryType = box.srcMemoryType;
    rows.srcDevice = box.srcDevice;
    rows.srcArray = box.srcArray;
    rows.dstMemoryType = box.dstMemoryType;
    rows.dstDevice = box.dstDevice;
    rows.dstArray = box.dstArray;
    rows.WidthInBytes = box.WidthInBytes;
    rows.Height = box.Height;
    using Rows = const CUDA_MEMCPY2D*;
    using Box = const CUDA_MEMCPY3D*;
    const auto handle = static_cast<CUstream>(stream);
    return driver("cuMemcpy2D", Rows{&rows}) == error &&
           driver("cuMemcpy2DUnaligned", Rows{&rows}) == error &&
           driver("cuMemcpy2DAsync", Rows{&rows}, handle) == error &&
           driver("cuMemcpy3D", Box{&box}) == error &&
           driver("cuMemcpy3DAsync", Box{&box}, handle) == error &&
           driver("cuGraphAddMemcpyNode", &node, graph, static_cast<const CUgraphNode*>(nullptr),
                  std::size_t{0}, Box{&box}, current()) == error;
  };
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = address_of(block.get());
  box.dstDevice = address_of(block.get() + 32);
  box.WidthInBytes = 4;
  box.Height = box.Depth = 1;
  REQUIRE(all_return(box, 0));
  for (auto* const type : {&box.srcMemoryType, &box.dstMemoryType}) {
    *type = CU_MEMORYTYPE_ARRAY;
    CHECK(all_return(box, kInvalidValue));
    if (is_virtual()) {  // a GPU's driver reads the memory behind a handle
      box.srcArray = box.dstArray = reinterpret_cast<decltype(box.srcArray)>(block.get());
      CHECK(all_return(box, kInvalidValue));
      box.srcArray = box.dstArray = nullptr;
    }
    *type = CU_MEMORYTYPE_DEVICE;
  }
  DRIVER_OK("cuGraphDestroy", graph);
}

TEST_CASE("memory belongs to its pool until the driver frees it in stream order") {
  const Stream stream;
  CUmemoryPool pool = nullptr;
  DRIVER_OK("cuDeviceGetDefaultMemPool", &pool, 0);
  CUdeviceptr made = 0;
  DRIVER_OK("cuMemAllocFromPoolAsync", &made, std::size_t{5000}, pool,
            static_cast<CUstream>(stream));
  CUmemoryPool found = nullptr;
  DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&found), 17, made);
  CHECK(found == pool);
  unsigned long long used = 0;
  DRIVER_OK("cuMemPoolGetAttribute", pool, 7, static_cast<void*>(&used));
  CHECK(used >= 5000);
  DRIVER_OK("cuMemFreeAsync", made, static_cast<CUstream>(stream));
  DRIVER_OK("cuStreamSynchronize", static_cast<CUstream>(stream));
  CHECK(driver("cuPointerGetAttribute", static_cast<void*>(&found), 17, made) == kInvalidValue);
}

TEST_CASE("a pool needs a current context only for a default stream") {
  const Stream stream;
  CUmemoryPool pool = nullptr;
  DRIVER_OK("cuDeviceGetDefaultMemPool", &pool, 0);
  void* const allocate = driver_function("cuMemAllocFromPoolAsync");
  void* const release = driver_function("cuMemFreeAsync");
  void* const wait = driver_function("cuStreamSynchronize");
  in_a_new_thread([&] {
    using Allocate = int (*)(CUdeviceptr*, std::size_t, CUmemoryPool, CUstream);
    using Release = int (*)(CUdeviceptr, CUstream);
    CUdeviceptr made = 0;
    CHECK(reinterpret_cast<Allocate>(allocate)(&made, 64, pool, nullptr) == kInvalidContext);
    CHECK(reinterpret_cast<Allocate>(allocate)(&made, 64, pool, stream) == 0);
    CHECK(reinterpret_cast<Release>(release)(made, nullptr) == kInvalidContext);
    CHECK(reinterpret_cast<Release>(release)(made, stream) == 0);
    using Wait = int (*)(CUstream);
    CHECK(reinterpret_cast<Wait>(wait)(nullptr) == kInvalidContext);
    CHECK(reinterpret_cast<Wait>(wait)(stream) == 0);
  });
}

TEST_CASE("a thread without a context can query the context of a stream, except a default stream") {
  const Stream stream;
  CUcontext expected = nullptr;
  DRIVER_OK("cuCtxGetCurrent", &expected);
  void* const get = driver_function("cuStreamGetCtx", 12000);
  in_a_new_thread([&] {
    using Get = int (*)(CUstream, CUcontext*);
    CUcontext found = nullptr;
    CHECK(reinterpret_cast<Get>(get)(stream, &found) == 0);
    CHECK(found == expected);
    CHECK(reinterpret_cast<Get>(get)(nullptr, &found) == kInvalidContext);
  });
}

TEST_CASE("a pool returns null for 0 bytes, and cuMemAlloc refuses 0 bytes") {
  const Stream stream;
  CUmemoryPool pool = nullptr;
  DRIVER_OK("cuDeviceGetDefaultMemPool", &pool, 0);
  CUdeviceptr made = 1;
  DRIVER_OK("cuMemAllocAsync", &made, std::size_t{0}, static_cast<CUstream>(stream));
  CHECK(made == 0);
  made = 1;
  DRIVER_OK("cuMemAllocFromPoolAsync", &made, std::size_t{0}, pool, static_cast<CUstream>(stream));
  CHECK(made == 0);
  CHECK(driver("cuMemAlloc", &made, std::size_t{0}) == kInvalidValue);
}

TEST_CASE("attributes of a pointer describe its allocation") {
  const DeviceBlock block{4096};
  const CUdeviceptr address = address_of(block.get() + 100);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  unsigned long long id = 0;
  unsigned long long id_of_start = 1;
  DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&bytes), 18, address);
  DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&base), 19, address);
  DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&id), 20, address);
  DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&id_of_start), 20, address_of(block.get()));
  CHECK(base == address_of(block.get()));
  CHECK(bytes >= 4096);
  CHECK(id == id_of_start);
}

TEST_CASE("a pool that was made without an export handle cannot be exported") {
  CUmemoryPool pool = nullptr;
  DRIVER_OK("cuDeviceGetDefaultMemPool", &pool, 0);
  int file = -1;
  CHECK(driver("cuMemPoolExportToShareableHandle", static_cast<void*>(&file), pool, 1, 0ULL) ==
        kInvalidValue);
  CHECK(cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 0) ==
        cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a retained handle keeps mapped memory after the original handle is released") {
  needs_two_gpus();
  CUmemAllocationProp properties{};
  properties.type = static_cast<decltype(properties.type)>(1);                    // pinned
  properties.location.type = static_cast<decltype(properties.location.type)>(1);  // device
  properties.location.id = 1;
  constexpr std::size_t kPage = std::size_t{2} << 20;
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemGenericAllocationHandle again = 0;
  DRIVER_OK("cuMemAddressReserve", &range, kPage, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  DRIVER_OK("cuMemCreate", &handle, kPage, static_cast<const CUmemAllocationProp*>(&properties),
            0ULL);
  DRIVER_OK("cuMemMap", range, kPage, std::size_t{0}, handle, 0ULL);
  DRIVER_OK("cuMemRelease", handle);
  DRIVER_OK("cuMemRetainAllocationHandle", &again, reinterpret_cast<void*>(range + 5));
  CHECK(again == handle);
  CUmemAllocationProp found{};
  DRIVER_OK("cuMemGetAllocationPropertiesFromHandle", &found, again);
  CHECK(found.location.id == 1);
  DRIVER_OK("cuMemUnmap", range, kPage);
  CHECK(driver("cuMemRetainAllocationHandle", &again, reinterpret_cast<void*>(range)) ==
        kInvalidValue);
  DRIVER_OK("cuMemGetAllocationPropertiesFromHandle", &found, handle);
  DRIVER_OK("cuMemRelease", handle);
  CHECK(driver("cuMemGetAllocationPropertiesFromHandle", &found, handle) == kInvalidValue);
  DRIVER_OK("cuMemAddressFree", range, kPage);
}

TEST_CASE("an error of the driver has its own name and does not set the runtime's last error") {
  only_virtual("NVIDIA's driver ends the process for an address that is no stream");
  CUDA_OK(cudaSetDevice(0));
  int on_host = 0;
  CHECK(driver("cuMemFree", address_of(&on_host)) == kInvalidValue);
  CHECK(driver("cuStreamQuery", reinterpret_cast<CUstream>(driver_function("cuInit"))) ==
        kInvalidHandle);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(cudaStreamQuery(reinterpret_cast<cudaStream_t>(driver_function("cuInit"))) ==
        cudaErrorInvalidResourceHandle);
  CHECK(driver("cuCtxSynchronize", CUcontext{}) == 0);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  const char* name = nullptr;
  DRIVER_OK("cuGetErrorName", 400, &name);
  CHECK(std::string_view{name} == "CUDA_ERROR_INVALID_HANDLE");
  CHECK(driver("cuGetErrorName", 98, &name) == kInvalidValue);
}

TEST_CASE("a lookup of a function returns the variant of the requested version") {
  const auto same = [](const char* name, unsigned one, unsigned other) {
    return driver_function(name, one) == driver_function(name, other);
  };
  CHECK(same("cuCtxCreate", 12050, 13000));
  CHECK_FALSE(same("cuCtxCreate", 11040, 12050));
  CHECK_FALSE(same("cuCtxCreate", 11030, 11040));
  CHECK_FALSE(same("cuMemAlloc", 2000, 3020));
  int status = -1;
  CHECK(driver_function("cuMemAllocAsync", 11010, 0, &status) == nullptr);
  CHECK(status == 2);  // the version is too low
  CHECK(driver_function("cuNoSuchFunction", 13000, 0, &status) == nullptr);
  CHECK(status == 1);
  static_cast<void>(cudaGetLastError());
  CHECK(driver_function("cuLaunchKernel", 13000, 1) != driver_function("cuLaunchKernel", 13000, 2));
  CHECK(driver_function("cuMemAlloc", 13000, 1) == driver_function("cuMemAlloc", 13000, 2));
  void* found = nullptr;
  REQUIRE(driver("cuGetProcAddress", "cuMemAlloc", &found, 13000, 0ULL, &status) == 0);
  CHECK(found == driver_function("cuMemAlloc"));
  CHECK(driver("cuGetProcAddress", "cuMemAlloc", &found, 99000, 0ULL, &status) == kInvalidValue);
}

TEST_CASE("the per-thread stream of the driver is that of the runtime and not the legacy stream") {
  const DeviceBlock block{64};
  unsigned long long legacy = 0;
  unsigned long long per_thread = 0;
  using Id = int (*)(CUstream, unsigned long long*);
  REQUIRE(reinterpret_cast<Id>(driver_function("cuStreamGetId", 13000, 1))(nullptr, &legacy) == 0);
  REQUIRE(reinterpret_cast<Id>(driver_function("cuStreamGetId", 13000, 2))(nullptr, &per_thread) ==
          0);
  CHECK(legacy != per_thread);
  unsigned long long of_runtime = 0;
  CUDA_OK(cudaStreamGetId(cudaStreamPerThread, &of_runtime));
  CHECK(per_thread == of_runtime);
}

TEST_CASE("memory of cudaMalloc and of pools made for it can be decompressed in hardware") {
  constexpr int kDecompression = 21;  // CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE
  const auto capable = [](const void* address) {
    bool found = false;
    DRIVER_OK("cuPointerGetAttribute", static_cast<void*>(&found), kDecompression,
              address_of(address));
    return found;
  };
  const DeviceBlock block{64};
  CHECK(capable(block.get()));
  const Stream stream;
  for (const bool usage : {false, true}) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.usage = usage ? 2 : 0;  // cudaMemPoolCreateUsageHwDecompress
    cudaMemPool_t pool = nullptr;
    CUDA_OK(cudaMemPoolCreate(&pool, &properties));
    void* address = nullptr;
    CUDA_OK(cudaMallocFromPoolAsync(&address, 64, pool, stream));
    CHECK(capable(address) == usage);
    CUDA_OK(cudaFreeAsync(address, stream));
    CUDA_OK(cudaMemPoolDestroy(pool));
  }
}
