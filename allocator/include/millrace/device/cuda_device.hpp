#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/profile.hpp"

namespace millrace {

/** @brief How many GPUs CUDA offers this process. */
struct CudaDeviceCount {
  int count = 0;
  std::string reason;  ///< with a count of 0, why, in one line; else empty
};

/** @brief 0 and the reason without a driver, without a GPU, and in a build without CUDA. */
[[nodiscard]] CudaDeviceCount cuda_device_count();

/** @brief As CUDA writes them: 12040 is 12.4. 0 where there is none. */
struct CudaVersions {
  int toolkit = 0;  ///< that this build was compiled with
  int runtime = 0;  ///< the libcudart that was loaded
  int driver = 0;   ///< the newest CUDA that the driver serves
};

[[nodiscard]] CudaVersions cuda_versions() noexcept;

/** @brief The architectures that this build has kernels for: {80, 90}. Later ones are compiled for
 *         by the driver. Empty in a build without CUDA. */
[[nodiscard]] std::vector<int> cuda_architectures();

/** @brief What a GPU says of itself. Peak figures follow from clocks and widths: none is reached.
 */
struct CudaDeviceInfo {
  std::string title;      ///< "NVIDIA H200"
  std::string pci_bus;    ///< "0000:1b:00.0"
  int compute_major = 0;  ///< of the compute capability
  int compute_minor = 0;
  std::size_t memory_bytes = 0;
  int multiprocessors = 0;
  int copy_engines = 0;
  double flops = 0;             ///< FP32 operations per second, outside the tensor cores
  double memory_bandwidth = 0;  ///< bytes per second, read and written
  bool virtual_memory = false;  ///< reserving, creating and mapping memory (cuMemMap)
  std::size_t page_bytes = 0;   ///< what is mapped in one piece at least; 0 without virtual_memory
  bool memory_pools = false;    ///< cudaMallocAsync
};

/** @throws DeviceError if there is no such device: what there is instead, or why there is none */
[[nodiscard]] CudaDeviceInfo cuda_device_info(int ordinal);

/** @brief What can be learnt of a GPU only by starting to use it. */
struct CudaDeviceState {
  MemoryInfo memory;
  int code = 0;  ///< architecture of this build's kernels as they run there: 90; 0: they do not
  std::string code_problem;  ///< with a code of 0, why
};

/**
 * @brief Starts the device's primary context, which takes a few hundred MiB there.
 * @throws DeviceError as `cuda_device_info`, and if the GPU can not be used now
 */
[[nodiscard]] CudaDeviceState cuda_device_state(int ordinal);

/**
 * @brief Whether kernels on `from` could use memory of `to`; CudaDevice::allow_peer lets them.
 * @throws DeviceError as above
 */
[[nodiscard]] bool cuda_peer_access(int from, int to);

/**
 * @brief A GPU, through the CUDA runtime. Streams, events and pointers are CUDA's own.
 *
 * Works in the device's primary context, which it makes current for the length of a call only, and
 * which stays when the device goes: handles that others made remain good. At process exit, when
 * CUDA is gone already, releasing does nothing; every other call then throws `device_lost`.
 *
 * A stream that is being captured is refused (`capture`), and the capture goes on. Calls that act
 * at host time do not disturb a capture elsewhere, but for `synchronize()` of the whole device.
 *
 * An Operation without `cuda` runs as a kernel that touches each declared view, moves as much of
 * them as `cost.bytes` says, and holds its stream until the declared cost is over, by the figures
 * of `info()`. Such kernels share the machine by taking turns; those with only a fixed cost run
 * beside others. What they write is unspecified.
 *
 * Waiting for a stream or an event spins for 50 microseconds, and then sleeps: but for the legacy
 * stream and the whole device, of which it spins, as CUDA's own waits do.
 *
 * The function of `callback` runs on a thread of the driver. One that throws loses the device. The
 * destructor waits for callbacks that are still to run.
 */
class CudaDevice : public Device {
 public:
  struct Options {
    DriverPoolPolicy pool;  ///< of this device's own pool; CUDA's default pool is left alone
  };

  /** @throws DeviceError (not_supported) where there is no CUDA, (invalid_argument) no such GPU */
  [[nodiscard]] static std::unique_ptr<CudaDevice> create(int ordinal);
  [[nodiscard]] static std::unique_ptr<CudaDevice> create(int ordinal, const Options& options);

  [[nodiscard]] bool modelled() const final { return false; }
  [[nodiscard]] virtual int ordinal() const noexcept = 0;
  [[nodiscard]] virtual const CudaDeviceInfo& info() const noexcept = 0;

  /**
   * @brief Lets work of another GPU use this one's memory, until the process ends: all of this
   *        device's, what is there already and what comes.
   *
   * Starts a context on that GPU. Before, such work fails there, and loses that GPU.
   * @throws DeviceError (not_supported) unless `cuda_peer_access(ordinal, this)`
   */
  virtual void allow_peer(int ordinal) = 0;

 protected:
  CudaDevice() = default;
};

}  // namespace millrace
