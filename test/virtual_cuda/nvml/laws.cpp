// NVML reports the same about the GPUs as CUDA.

#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "nvml/nvml.h"
#include "test/support/catch.hpp"
#include "test/virtual_cuda/cuda.hpp"

extern "C" {
nvmlReturn_t nvmlInit_v2();
nvmlReturn_t nvmlShutdown();
const char* nvmlErrorString(nvmlReturn_t);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned*);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char*, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char*, nvmlDevice_t*);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t, unsigned*);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char*, unsigned);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char*, unsigned);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t, nvmlPciInfo_t*);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t*);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t*);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t, unsigned*, nvmlProcessInfo_v1_t*);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned*, nvmlProcessInfo_t*);
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t, unsigned, int*);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int*);
}

namespace {

class Nvml {
 public:
  Nvml() { REQUIRE(nvmlInit_v2() == NVML_SUCCESS); }
  ~Nvml() { nvmlShutdown(); }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
};

nvmlDevice_t gpu(unsigned index) {
  nvmlDevice_t found = nullptr;
  REQUIRE(nvmlDeviceGetHandleByIndex_v2(index, &found) == NVML_SUCCESS);
  return found;
}

}  // namespace

// This must be the first case: no other case has then made a CUDA runtime in this process.
TEST_CASE("a process that uses NVML may fork, and its child may use CUDA") {
  const Nvml nvml;
  unsigned count = 0;
  REQUIRE(nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS);
  const pid_t child = fork();
  if (child == 0) {
    void* memory = nullptr;
    const bool works = cudaMalloc(&memory, 1 << 20) == cudaSuccess;
    nvmlMemory_t told{};
    const bool tells = nvmlDeviceGetMemoryInfo(gpu(0), &told) == NVML_SUCCESS && told.used != 0;
    _exit(works && tells ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("NVML answers only between nvmlInit and nvmlShutdown") {
  unsigned count = 0;
  CHECK(nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED);
  CHECK(nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
  {
    const Nvml outer, inner;
    CHECK(nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS);
    CHECK(nvmlDeviceGetCount_v2(nullptr) == NVML_ERROR_INVALID_ARGUMENT);
  }
  CHECK(nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED);
  CHECK(std::string{nvmlErrorString(NVML_ERROR_NOT_SUPPORTED)} == "Not Supported");
}

TEST_CASE("NVML and CUDA have the same GPUs") {
  const Nvml nvml;
  unsigned count = 0;
  int gpus = 0, version = 0, driver = 0;
  REQUIRE(nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS);
  REQUIRE(cudaGetDeviceCount(&gpus) == cudaSuccess);
  REQUIRE(count == static_cast<unsigned>(gpus));
  REQUIRE(nvmlSystemGetCudaDriverVersion_v2(&version) == NVML_SUCCESS);
  REQUIRE(cudaDriverGetVersion(&driver) == cudaSuccess);
  CHECK(version == driver);
  for (unsigned i = 0; i < count; ++i) {
    cudaDeviceProp facts{};
    REQUIRE(cudaGetDeviceProperties(&facts, static_cast<int>(i)) == cudaSuccess);
    char bus[32], name[96], uuid[96];
    REQUIRE(cudaDeviceGetPCIBusId(bus, sizeof bus, static_cast<int>(i)) == cudaSuccess);
    nvmlDevice_t device = nullptr;
    REQUIRE(nvmlDeviceGetHandleByPciBusId_v2(bus, &device) == NVML_SUCCESS);
    CHECK(device == gpu(i));
    unsigned index = 99;
    CHECK(nvmlDeviceGetIndex(device, &index) == NVML_SUCCESS);
    CHECK(index == i);
    CHECK(nvmlDeviceGetName(device, name, sizeof name) == NVML_SUCCESS);
    CHECK(std::string{name} == facts.name);
    CHECK(nvmlDeviceGetName(device, name, 3) == NVML_ERROR_INSUFFICIENT_SIZE);
    CHECK(nvmlDeviceGetUUID(device, uuid, sizeof uuid) == NVML_SUCCESS);
    nvmlDevice_t by_uuid = nullptr;
    CHECK(nvmlDeviceGetHandleByUUID(uuid, &by_uuid) == NVML_SUCCESS);
    CHECK(by_uuid == device);
    nvmlPciInfo_t place{};
    CHECK(nvmlDeviceGetPciInfo_v3(device, &place) == NVML_SUCCESS);
    CHECK(place.bus == static_cast<unsigned>(facts.pciBusID));
    CHECK(std::string{place.busIdLegacy}.size() == std::string{bus}.size());
  }
  nvmlDevice_t none = nullptr;
  CHECK(nvmlDeviceGetHandleByIndex_v2(count, &none) == NVML_ERROR_INVALID_ARGUMENT);
  CHECK(nvmlDeviceGetHandleByPciBusId_v2("0000:ff:00.0", &none) == NVML_ERROR_NOT_FOUND);
}

TEST_CASE("NVML reports the memory of the process and no NVLink") {
  const Nvml nvml;
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, std::size_t{64} << 20) == cudaSuccess);
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  nvmlMemory_t told{};
  REQUIRE(nvmlDeviceGetMemoryInfo(gpu(0), &told) == NVML_SUCCESS);
  CHECK(told.total == total);
  CHECK(told.used == total - free);
  CHECK(told.free == free);
  nvmlMemory_v2_t newer{};
  CHECK(nvmlDeviceGetMemoryInfo_v2(gpu(0), &newer) == NVML_ERROR_INVALID_ARGUMENT);
  newer.version = sizeof newer | 2u << 24;
  REQUIRE(nvmlDeviceGetMemoryInfo_v2(gpu(0), &newer) == NVML_SUCCESS);
  CHECK(newer.used == told.used);

  unsigned count = 0;
  CHECK(nvmlDeviceGetComputeRunningProcesses(gpu(0), &count, nullptr) ==
        NVML_ERROR_INSUFFICIENT_SIZE);
  REQUIRE(count == 1);
  nvmlProcessInfo_v1_t process{};
  REQUIRE(nvmlDeviceGetComputeRunningProcesses(gpu(0), &count, &process) == NVML_SUCCESS);
  CHECK(process.pid == static_cast<unsigned>(getpid()));
  CHECK(process.usedGpuMemory == told.used);
  count = 8;
  nvmlProcessInfo_t newest[8];
  CHECK(nvmlDeviceGetComputeRunningProcesses_v3(gpu(1), &count, newest) == NVML_SUCCESS);
  CHECK(count == 0);
  int type = 0;
  CHECK(nvmlDeviceGetNvLinkRemoteDeviceType(gpu(0), 0, &type) == NVML_ERROR_NOT_SUPPORTED);
  CHECK(cudaFree(memory) == cudaSuccess);
}
