#include <array>

#include "device/cuda/context.hpp"
#include "device/cuda/error.hpp"
#include "device/cuda/vmm.hpp"
#include "millrace/device/cuda_device.hpp"
#include "millrace/device/occupy.hpp"

namespace millrace {
namespace {

using cuda::check;

int attribute(cudaDeviceAttr what, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, what, ordinal), "cudaDeviceGetAttribute", what, ordinal);
  return value;
}

bool supports_mapping(int ordinal) {
  CUdevice device{};
  int supported = 0;
  check(cuda::driver().cuDeviceGet(&device, ordinal), "cuDeviceGet", ordinal);
  check(cuda::driver().cuDeviceGetAttribute(
            &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device),
        "cuDeviceGetAttribute", "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", ordinal);
  return supported != 0;
}

/**
 * Returns the FP32 lanes of each multiprocessor (CUDA C++ programming guide, arithmetic
 * instructions per cycle).
 */
int fp32_lanes(int major, int minor) {
  if (major < 8 || (major == 8 && minor == 0)) return 64;
  return 128;
}

std::string written_version(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

std::string why_none(cudaError_t error) {
  const CudaVersions versions = cuda_versions();
  if (error == cudaErrorInsufficientDriver && versions.driver == 0) {
    return "no NVIDIA driver is installed here (or libcuda.so.1 is not found)";
  }
  if (error == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver serves CUDA up to " + written_version(versions.driver) +
           ", and this build needs " + written_version(versions.runtime);
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    return "the NVIDIA driver finds no GPU that this process may use";
  }
  return "CUDA does not start: " + cuda::describe(error);
}

std::string name_of(int ordinal) { return "cuda:" + std::to_string(ordinal); }

/** @param error  set to the driver's answer */
CudaDeviceCount counted(cudaError_t& error) {
  int count = 0;
  error = cudaGetDeviceCount(&count);
  cuda::quietly(error);
  if (error == cudaSuccess && count > 0) return {count, {}};
  return {0, why_none(error)};
}

/** Returns whether the error means a lost GPU. Otherwise CUDA does not start. */
bool lost(cudaError_t error) {
  return error != cudaErrorInitializationError && cuda::classify(error) == ErrorCode::device_lost;
}

}  // namespace

CudaDeviceCount cuda_device_count() {
  cudaError_t error = cudaSuccess;
  return counted(error);
}

CudaVersions cuda_versions() noexcept {
  CudaVersions versions;
  versions.toolkit = CUDART_VERSION;
  cuda::quietly(cudaRuntimeGetVersion(&versions.runtime));
  cuda::quietly(cudaDriverGetVersion(&versions.driver));
  return versions;
}

std::vector<int> cuda_architectures() { return cuda::architectures(); }

namespace cuda {

void check_ordinal(int ordinal) {
  cudaError_t error = cudaSuccess;
  const CudaDeviceCount devices = counted(error);
  if (lost(error)) fail(error, "cudaGetDeviceCount");
  if (devices.count == 0) {
    throw DeviceError{ErrorCode::not_supported, name_of(ordinal), devices.reason};
  }
  if (ordinal >= 0 && ordinal < devices.count) return;
  throw DeviceError{
      ErrorCode::invalid_argument, name_of(ordinal),
      "the device does not exist (expected " +
          (devices.count == 1 ? name_of(0) : name_of(0) + " to " + name_of(devices.count - 1)) +
          ")"};
}

}  // namespace cuda

CudaDeviceInfo cuda_device_info(int ordinal) {
  cuda::check_ordinal(ordinal);
  CudaDeviceInfo info;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties", ordinal);
  info.title = properties.name;
  info.memory_bytes = properties.totalGlobalMem;
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.copy_engines = attribute(cudaDevAttrAsyncEngineCount, ordinal);

  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal),
        "cudaDeviceGetPCIBusId", ordinal);
  info.pci_bus = bus.data();

  const double clock = 1e3 * attribute(cudaDevAttrClockRate, ordinal);  // in kHz
  const double memory_clock = 1e3 * attribute(cudaDevAttrMemoryClockRate, ordinal);
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, ordinal) / 8.0;
  info.flops = 2.0 * fp32_lanes(info.compute_major, info.compute_minor) * info.multiprocessors *
               clock;                                      // a fused multiply-add counts as two
  info.memory_bandwidth = 2.0 * memory_clock * bus_bytes;  // two transfers per clock
  info.memory_pools = attribute(cudaDevAttrMemoryPoolsSupported, ordinal) != 0;
  info.virtual_memory = supports_mapping(ordinal);
  if (info.virtual_memory) info.page_bytes = cuda::page_bytes(ordinal);
  return info;
}

CudaDeviceState cuda_device_state(int ordinal) {
  cuda::check_ordinal(ordinal);
  const cuda::CurrentContext current{cuda::primary_context(ordinal)};
  CudaDeviceState state;
  check(cudaMemGetInfo(&state.memory.free, &state.memory.total), "cudaMemGetInfo");
  try {
    state.code = cuda::architecture_here();
  } catch (const DeviceError& error) {
    state.code_problem = error.what();
  }
  return state;
}

bool cuda_peer_access(int from, int to) {
  cuda::check_ordinal(from);
  cuda::check_ordinal(to);
  if (from == to) return true;
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, from, to), "cudaDeviceCanAccessPeer", from, to);
  return possible != 0;
}

}  // namespace millrace
