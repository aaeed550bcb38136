#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/profile.hpp"

namespace millrace {

/** @brief Number of GPUs that CUDA offers to this process. */
struct CudaDeviceCount {
  int count = 0;
  std::string reason;  ///< why `count` is 0, in one line; empty otherwise
};

/** @brief Counts the GPUs. The count is 0 without a driver and in a build without CUDA. */
[[nodiscard]] CudaDeviceCount cuda_device_count();

/** @brief Versions in CUDA's notation (12040 is 12.4); 0 if not available. */
struct CudaVersions {
  int toolkit = 0;  ///< the toolkit that compiled this build
  int runtime = 0;  ///< the libcudart that was loaded
  int driver = 0;   ///< the newest CUDA version that the driver supports
};

/** @brief Returns the versions of the toolkit, the runtime and the driver. */
[[nodiscard]] CudaVersions cuda_versions() noexcept;

/**
 * @brief The architectures that this build has kernels for, for instance {80, 90}.
 *
 * For later architectures the driver compiles the kernels. Empty in a build without CUDA.
 */
[[nodiscard]] std::vector<int> cuda_architectures();

/**
 * @brief Properties of a GPU.
 *
 * Peak rates are computed from clocks and widths. No program reaches them.
 */
struct CudaDeviceInfo {
  std::string title;      ///< "NVIDIA H200"
  std::string pci_bus;    ///< "0000:1b:00.0"
  int compute_major = 0;  ///< compute capability, major number
  int compute_minor = 0;  ///< compute capability, minor number
  std::size_t memory_bytes = 0;
  int multiprocessors = 0;
  int copy_engines = 0;
  double flops = 0;             ///< FP32 operations per second, outside the tensor cores
  double memory_bandwidth = 0;  ///< bytes per second, read and written
  bool virtual_memory = false;  ///< supports virtual memory management (cuMemMap)
  std::size_t page_bytes = 0;   ///< smallest unit that can be mapped; 0 without virtual_memory
  bool memory_pools = false;    ///< supports cudaMallocAsync
};

/**
 * @brief Reads the properties of a GPU without starting a context on it.
 * @param ordinal  CUDA's number of the GPU, from 0
 * @throws DeviceError if the GPU does not exist; the message lists the GPUs, or says why none exist
 */
[[nodiscard]] CudaDeviceInfo cuda_device_info(int ordinal);

/** @brief Properties of a GPU that require a context on it. */
struct CudaDeviceState {
  MemoryInfo memory;
  int code = 0;  ///< architecture of the kernels that run there, for instance 90; 0: none run
  std::string code_problem;  ///< why `code` is 0; empty otherwise
};

/**
 * @brief Reads those properties. Starts the GPU's primary context, which takes a few hundred MiB.
 * @param ordinal  CUDA's number of the GPU, from 0
 * @throws DeviceError like `cuda_device_info`, and if the GPU cannot be used at the moment
 */
[[nodiscard]] CudaDeviceState cuda_device_state(int ordinal);

/**
 * @brief Returns whether kernels on GPU `from` can use memory of GPU `to`, after
 *        CudaDevice::allow_peer.
 * @throws DeviceError like `cuda_device_info`
 */
[[nodiscard]] bool cuda_peer_access(int from, int to);

/**
 * @brief A GPU, used through the CUDA runtime. Streams, events and pointers are CUDA's own.
 *
 * The object works in the GPU's primary context and makes it current only during a call. The
 * context outlives the object, so handles made by other code stay valid. At process exit, after
 * CUDA was unloaded, releasing does nothing and every other call throws `device_lost`.
 *
 * A call on a stream that is being captured throws DeviceError (`capture`) and does not invalidate
 * the capture. Calls that act at host time do not disturb captures of other streams, except
 * `synchronize()` of the whole device.
 *
 * An Operation without `cuda` runs as a synthetic kernel. It touches each declared view, moves
 * `cost.bytes` bytes, and occupies its stream for the declared cost, computed from `info()`. Such
 * kernels take turns; kernels with only a fixed cost run at the same time as others. The bytes that
 * they write are unspecified.
 *
 * A wait for a stream or an event spins for 50 microseconds and then sleeps. A wait for the legacy
 * stream or for the whole device spins only, like CUDA's own waits.
 *
 * The function given to `callback` runs on a driver thread. If it throws, the device is lost. The
 * destructor waits for callbacks that have not run yet.
 */
class CudaDevice : public Device {
 public:
  /** @brief How the device uses the driver's pool. */
  struct Options {
    DriverPoolPolicy pool;  ///< for this object's own pool; CUDA's default pool is not changed
  };

  /**
   * @brief Opens a GPU.
   * @param ordinal  CUDA's number of the GPU, from 0
   * @throws DeviceError `not_supported` without CUDA; `invalid_argument` if the GPU does not exist
   */
  [[nodiscard]] static std::unique_ptr<CudaDevice> create(int ordinal);
  [[nodiscard]] static std::unique_ptr<CudaDevice> create(int ordinal, const Options& options);

  [[nodiscard]] bool modeled() const final { return false; }
  [[nodiscard]] virtual int ordinal() const noexcept = 0;
  [[nodiscard]] virtual const CudaDeviceInfo& info() const noexcept = 0;

  /**
   * @brief Lets work on GPU `ordinal` use all present and future memory of this device, until the
   *        process ends.
   *
   * Starts a context on that GPU. Without this call such work fails and loses that GPU.
   * @throws DeviceError `not_supported` unless `cuda_peer_access(ordinal, this->ordinal())`
   */
  virtual void allow_peer(int ordinal) = 0;

 protected:
  CudaDevice() = default;
};

}  // namespace millrace
