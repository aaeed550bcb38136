// NVML, for programs that query the GPUs without CUDA. PyTorch's expandable segments ask for links
// between GPUs. PyTorch's out-of-memory message lists the processes on the GPU. Python's tools ask
// for memory. The facts come from the settings. So a query makes no CUDA runtime, and it works
// before and after a fork.

#include "nvml/nvml.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <string>
#include <string_view>

#include "driver/symbols.hpp"
#include "engine/runtime.hpp"

#define MILLRACE_NVML extern "C" __attribute__((visibility("default"))) nvmlReturn_t

using namespace millrace::virtual_cuda;

namespace {

std::atomic<int> started{0};  // calls of nvmlInit minus calls of nvmlShutdown

/// The GPUs of the settings, made at the first call. Null: the settings are wrong.
const std::deque<Gpu>* gpus() noexcept {
  static const std::deque<Gpu>* const made = []() -> const std::deque<Gpu>* {
    try {
      const Settings settings = Settings::from_environment();
      auto* const all = new std::deque<Gpu>;  // never destroyed, like the runtime
      for (unsigned i = 0; i < settings.gpus; ++i) {
        Gpu& gpu = all->emplace_back();
        gpu.ordinal = i;
        gpu.profile = millrace::DeviceProfile::named(settings.profile);
        gpu.profile.memory_bytes = settings.memory.value_or(gpu.profile.memory_bytes);
      }
      return all;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "millrace virtual NVML: %s\n", error.what());
      return nullptr;
    }
  }();
  return made;
}

/// A handle is the GPU's number plus one.
nvmlDevice_t handle_of(unsigned index) {
  return reinterpret_cast<nvmlDevice_t>(static_cast<std::uintptr_t>(index) + 1);
}

/// Bytes that this process uses. No other process uses its machine. A forked child has no machine.
std::size_t used(const Gpu& gpu) {
  if (the_runtime == nullptr || process_refusal.load() != cudaSuccess) return 0;
  const Lock lock{runtime().engine.mutex()};
  return runtime().memory.used(gpu.ordinal);
}

/// Calls `body` between nvmlInit and nvmlShutdown.
template <typename Body>
nvmlReturn_t answer(Body body) noexcept {
  if (started.load() <= 0) return NVML_ERROR_UNINITIALIZED;
  try {
    return body();
  } catch (const std::exception&) {
    return NVML_ERROR_UNKNOWN;
  }
}

/// As `answer`, with the GPU of a handle.
template <typename Body>
nvmlReturn_t about(nvmlDevice_t device, Body body) noexcept {
  return answer([&] {
    const std::size_t number = reinterpret_cast<std::uintptr_t>(device);
    if (number == 0 || number > gpus()->size()) return NVML_ERROR_INVALID_ARGUMENT;
    return body((*gpus())[number - 1]);
  });
}

nvmlReturn_t copy_text(std::string_view text, char* out, unsigned length) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::copy(text.begin(), text.end(), out);
  out[text.size()] = '\0';
  return NVML_SUCCESS;
}

template <typename Value>
nvmlReturn_t give(Value* out, Value value) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = value;
  return NVML_SUCCESS;
}

std::string bus_id(const Gpu& gpu, int domain_digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*x:%02X:00.0", domain_digits, 0, (gpu.ordinal + 1) & 0xff);
  return text;
}

std::string uuid(const Gpu& gpu) {
  const cudaDeviceProp all = gpu.properties();
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(all.uuid.bytes[i]));
    text += byte;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

/// The first GPU for which `is_it` holds.
template <typename Predicate>
nvmlReturn_t find(nvmlDevice_t* out, Predicate is_it) {
  return answer([&] {
    if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const auto found = std::find_if(gpus()->begin(), gpus()->end(), is_it);
    if (found == gpus()->end()) return NVML_ERROR_NOT_FOUND;
    *out = handle_of(found->ordinal);
    return NVML_SUCCESS;
  });
}

/// This process, if it uses memory of the GPU.
template <typename Info>
nvmlReturn_t processes(nvmlDevice_t device, unsigned* count, Info* infos) {
  return about(device, [&](const Gpu& gpu) {
    if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const std::size_t bytes = used(gpu);
    const unsigned room = *count;
    *count = bytes == 0 ? 0 : 1;
    if (*count > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    if (bytes == 0) return NVML_SUCCESS;
    if (infos == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *infos = {};
    infos->pid = static_cast<unsigned>(getpid());
    infos->usedGpuMemory = bytes;
    if constexpr (requires { infos->gpuInstanceId; })
      infos->gpuInstanceId = infos->computeInstanceId = ~0u;  // no MIG
    return NVML_SUCCESS;
  });
}

nvmlReturn_t none(nvmlDevice_t device, unsigned* count) {
  return about(device, [&](const Gpu&) { return give(count, 0u); });
}

nvmlReturn_t unsupported(nvmlDevice_t device) {
  return about(device, [](const Gpu&) { return NVML_ERROR_NOT_SUPPORTED; });
}

nvmlReturn_t start() {
  if (gpus() == nullptr) return NVML_ERROR_DRIVER_NOT_LOADED;
  ++started;
  return NVML_SUCCESS;
}

nvmlReturn_t by_index(unsigned index, nvmlDevice_t* out) {
  return answer([&] {
    if (index >= gpus()->size()) return NVML_ERROR_INVALID_ARGUMENT;
    return give(out, handle_of(index));
  });
}

nvmlReturn_t count_gpus(unsigned* out) {
  return answer([&] { return give(out, static_cast<unsigned>(gpus()->size())); });
}

// The domain may have four or eight digits. Letters may be upper or lower case.
nvmlReturn_t by_bus_id(const char* text, nvmlDevice_t* out) {
  if (text == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return find(out, [&](const Gpu& gpu) {
    return strcasecmp(text, bus_id(gpu, 4).c_str()) == 0 ||
           strcasecmp(text, bus_id(gpu, 8).c_str()) == 0;
  });
}

}  // namespace

MILLRACE_NVML nvmlInit() { return start(); }
MILLRACE_NVML nvmlInit_v2() { return start(); }
MILLRACE_NVML nvmlInitWithFlags(unsigned) { return start(); }
MILLRACE_NVML nvmlShutdown() {
  return answer([] {
    --started;
    return NVML_SUCCESS;
  });
}

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED:
      return "Already Initialized";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "Function Not Found";
    case NVML_ERROR_UNKNOWN:
      break;
  }
  return "Unknown Error";
}

MILLRACE_NVML nvmlSystemGetCudaDriverVersion(int* version) {
  return answer([&] { return give(version, kDriverVersion); });
}
MILLRACE_NVML nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return answer([&] { return give(version, kDriverVersion); });
}
MILLRACE_NVML nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return answer([&] { return copy_text("millrace virtual", text, length); });
}
MILLRACE_NVML nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  return answer([&] { return copy_text("13.millrace virtual", text, length); });
}

MILLRACE_NVML nvmlDeviceGetCount(unsigned* count) { return count_gpus(count); }
MILLRACE_NVML nvmlDeviceGetCount_v2(unsigned* count) { return count_gpus(count); }
MILLRACE_NVML nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return by_index(index, device);
}
MILLRACE_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  return by_index(index, device);
}
MILLRACE_NVML nvmlDeviceGetHandleByPciBusId(const char* text, nvmlDevice_t* device) {
  return by_bus_id(text, device);
}
MILLRACE_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* text, nvmlDevice_t* device) {
  return by_bus_id(text, device);
}
MILLRACE_NVML nvmlDeviceGetHandleByUUID(const char* text, nvmlDevice_t* device) {
  if (text == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return find(device, [&](const Gpu& gpu) { return uuid(gpu) == text; });
}

MILLRACE_NVML nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  return about(device, [&](const Gpu& gpu) { return give(index, gpu.ordinal); });
}
MILLRACE_NVML nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* number) {
  return about(device, [&](const Gpu& gpu) { return give(number, gpu.ordinal); });
}
MILLRACE_NVML nvmlDeviceGetName(nvmlDevice_t device, char* text, unsigned length) {
  return about(device,
               [&](const Gpu& gpu) { return copy_text(gpu.properties().name, text, length); });
}
MILLRACE_NVML nvmlDeviceGetUUID(nvmlDevice_t device, char* text, unsigned length) {
  return about(device, [&](const Gpu& gpu) { return copy_text(uuid(gpu), text, length); });
}
MILLRACE_NVML nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* info) {
  return about(device, [&](const Gpu& gpu) {
    if (info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *info = {};
    info->bus = gpu.ordinal + 1;
    static_cast<void>(copy_text(bus_id(gpu, 4), info->busIdLegacy, sizeof info->busIdLegacy));
    return copy_text(bus_id(gpu, 8), info->busId, sizeof info->busId);
  });
}
MILLRACE_NVML nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  return about(device, [&](const Gpu& gpu) {
    const cudaDeviceProp all = gpu.properties();
    if (major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *major = all.major;
    *minor = all.minor;
    return NVML_SUCCESS;
  });
}
MILLRACE_NVML nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return about(device, [&](const Gpu& gpu) {
    const unsigned long long total = gpu.profile.memory_bytes, taken = used(gpu);
    return give(memory, nvmlMemory_t{total, total - taken, taken});
  });
}
MILLRACE_NVML nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  constexpr unsigned kVersion = sizeof(nvmlMemory_v2_t) | 2u << 24;
  return about(device, [&](const Gpu& gpu) {
    if (memory == nullptr || memory->version != kVersion) return NVML_ERROR_INVALID_ARGUMENT;
    const unsigned long long total = gpu.profile.memory_bytes, taken = used(gpu);
    *memory = {kVersion, total, 0, total - taken, taken};
    return NVML_SUCCESS;
  });
}
MILLRACE_NVML nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                   nvmlProcessInfo_v1_t* infos) {
  return processes(device, count, infos);
}
MILLRACE_NVML nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                      nvmlProcessInfo_t* infos) {
  return processes(device, count, infos);
}
MILLRACE_NVML nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                      nvmlProcessInfo_t* infos) {
  return processes(device, count, infos);
}
MILLRACE_NVML nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned* count, void*) {
  return none(device, count);
}
MILLRACE_NVML nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                       void*) {
  return none(device, count);
}
MILLRACE_NVML nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                       void*) {
  return none(device, count);
}

// The virtual machine has no clocks, sensors, links and partitions.
MILLRACE_NVML nvmlDeviceGetUtilizationRates(nvmlDevice_t device, void*) {
  return unsupported(device);
}
MILLRACE_NVML nvmlDeviceGetTemperature(nvmlDevice_t device, int, unsigned*) {
  return unsupported(device);
}
MILLRACE_NVML nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned*) {
  return unsupported(device);
}
MILLRACE_NVML nvmlDeviceGetClockInfo(nvmlDevice_t device, int, unsigned*) {
  return unsupported(device);
}
MILLRACE_NVML nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned*, unsigned*) {
  return unsupported(device);
}
MILLRACE_NVML nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned, int*) {
  return unsupported(device);
}
MILLRACE_NVML nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned, int*) {
  return unsupported(device);
}
MILLRACE_NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned, nvmlPciInfo_t*) {
  return unsupported(device);
}
MILLRACE_NVML nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, void*) { return unsupported(device); }
MILLRACE_NVML nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void*) {
  return unsupported(device);
}
