#include "engine/gpu.hpp"

#include <cstring>
#include <optional>

#include "engine/array_limits.hpp"

namespace millrace::virtual_cuda {
namespace {

constexpr int kThreadsOfMultiprocessor = 2048;
constexpr std::size_t kReservedShared = 1024;
constexpr int kRegisters = 65536;

/** CUDA reports clock rates in kHz. */
int in_khz(double hertz) { return static_cast<int>(hertz / 1e3); }

}  // namespace

int Gpu::major() const noexcept { return static_cast<int>(profile.chip.compute_major); }

cudaDeviceProp Gpu::properties() const {
  const ChipFacts& chip = profile.chip;
  cudaDeviceProp all{};
  std::strncpy(all.name, profile.title.c_str(), sizeof all.name - 1);
  std::memcpy(all.uuid.bytes, "millrace virtual", sizeof all.uuid.bytes);
  all.uuid.bytes[15] = static_cast<char>('0' + ordinal);
  all.totalGlobalMem = profile.memory_bytes;
  all.sharedMemPerBlock = 48 << 10;
  all.regsPerBlock = kRegisters;
  all.warpSize = 32;
  all.memPitch = 0x7fffffff;
  all.maxThreadsPerBlock = 1024;
  all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
  all.maxThreadsDim[2] = 64;
  all.maxGridSize[0] = 0x7fffffff;
  all.maxGridSize[1] = all.maxGridSize[2] = 65535;
  all.totalConstMem = 64 << 10;
  all.major = static_cast<int>(chip.compute_major);
  all.minor = static_cast<int>(chip.compute_minor);
  all.textureAlignment = 512;
  all.texturePitchAlignment = 32;
  all.multiProcessorCount = static_cast<int>(chip.multiprocessors);
  all.canMapHostMemory = 1;
  all.surfaceAlignment = 512;
  all.concurrentKernels = 1;
  all.ECCEnabled = 1;
  all.pciBusID = static_cast<int>(ordinal) + 1;
  all.asyncEngineCount = static_cast<int>(profile.copy_engines);
  all.unifiedAddressing = 1;
  all.memoryBusWidth = static_cast<int>(chip.memory_bus);
  all.l2CacheSize = static_cast<int>(chip.l2_bytes);
  all.maxThreadsPerMultiProcessor = kThreadsOfMultiprocessor;
  all.streamPrioritiesSupported = 1;
  all.globalL1CacheSupported = all.localL1CacheSupported = 1;
  all.sharedMemPerMultiprocessor = chip.shared_memory;
  all.regsPerMultiprocessor = kRegisters;
  all.managedMemory = 1;
  all.multiGpuBoardGroupID = static_cast<int>(ordinal);
  all.concurrentManagedAccess = 1;
  all.computePreemptionSupported = 1;
  all.canUseHostPointerForRegisteredMem = 1;
  all.cooperativeLaunch = 1;
  all.sharedMemPerBlockOptin = chip.shared_memory - kReservedShared;
  all.maxBlocksPerMultiProcessor = 32;
  all.reservedSharedMemPerBlock = kReservedShared;
  all.hostRegisterSupported = 1;
  all.memoryPoolsSupported = 1;
  all.memoryPoolSupportedHandleTypes = cudaMemHandleTypePosixFileDescriptor;
  all.clusterLaunch = all.major >= 9 ? 1 : 0;
  set_array_limits(all);
  return all;
}

cudaError_t Gpu::attribute(cudaDeviceAttr attribute, int& value) const {
  const cudaDeviceProp all = properties();
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      value = all.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
    case cudaDevAttrMaxBlockDimZ:
      value = all.maxThreadsDim[attribute - cudaDevAttrMaxBlockDimX];
      break;
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      value = all.maxGridSize[attribute - cudaDevAttrMaxGridDimX];
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      value = static_cast<int>(all.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      value = static_cast<int>(all.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      value = static_cast<int>(all.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      value = static_cast<int>(all.reservedSharedMemPerBlock);
      break;
    case cudaDevAttrTotalConstantMemory:
      value = static_cast<int>(all.totalConstMem);
      break;
    case cudaDevAttrWarpSize:
      value = all.warpSize;
      break;
    case cudaDevAttrMaxPitch:
      value = static_cast<int>(all.memPitch);
      break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      value = kRegisters;
      break;
    case cudaDevAttrClockRate:
      value = in_khz(profile.chip.clock);
      break;
    case cudaDevAttrMemoryClockRate:
      value = in_khz(profile.chip.memory_clock);
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      value = all.memoryBusWidth;
      break;
    case cudaDevAttrTextureAlignment:
    case cudaDevAttrSurfaceAlignment:
      value = 512;
      break;
    case cudaDevAttrTexturePitchAlignment:
      value = 32;
      break;
    case cudaDevAttrMultiProcessorCount:
      value = all.multiProcessorCount;
      break;
    case cudaDevAttrL2CacheSize:
      value = all.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      value = kThreadsOfMultiprocessor;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      value = all.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrAsyncEngineCount:
      value = all.asyncEngineCount;
      break;
    case cudaDevAttrPciBusId:
      value = all.pciBusID;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      value = all.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      value = all.minor;
      break;
    case cudaDevAttrMultiGpuBoardGroupID:
      value = static_cast<int>(ordinal);
      break;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
      value = 2;
      break;
    case cudaDevAttrNumaId:
      value = -1;
      break;
    case cudaDevAttrHostNumaId:  // the host is one node
      value = 0;
      break;
    case cudaDevAttrClusterLaunch:
      value = all.clusterLaunch;
      break;
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrHostMemoryPoolsSupported:
    case cudaDevAttrHostNumaMemoryPoolsSupported:
    case cudaDevAttrMemSyncDomainCount:
    case cudaDevAttrMemoryPoolSupportedHandleTypes:  // cudaMemHandleTypePosixFileDescriptor
      value = 1;
      break;
    default:
      if (const std::optional<int> limit = array_limit(attribute, all)) {
        value = *limit;
        break;
      }
      // The GPU lacks all other features: sparse arrays, RDMA, graphics, IPC, MPS.
      if (attribute < cudaDevAttrMaxThreadsPerBlock ||
          attribute > cudaDevAttrOnlyPartialHostNativeAtomicSupported)
        return cudaErrorInvalidValue;
      value = 0;
  }
  return cudaSuccess;
}

}  // namespace millrace::virtual_cuda
