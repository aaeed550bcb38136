#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "millrace/device/ordered_device.hpp"
#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/collective/rendezvous.hpp"

namespace millrace {

/** @brief Whether NCCL could be loaded. */
struct NcclSupport {
  bool loaded = false;
  int version = 0;         ///< for instance 22304 for 2.23.4
  std::string problem;     ///< why it was not loaded; "" if `loaded`
  std::string how_to_get;  ///< how to get it, in one line; "" if `loaded`
};
/** @brief Loads NCCL at the first call in a process; later calls return the same result. */
[[nodiscard]] NcclSupport nccl_support();

/**
 * @brief A group of GPUs that communicate with NCCL.
 *
 * NCCL is loaded at run time: libnccl.so.2, or the file that the environment variable MILLRACE_NCCL
 * names.
 *
 * Operations on device memory are enqueued and do not block the host. Each stream has its own
 * communicator, made at the first operation on the stream; making it blocks until all ranks do the
 * same. Exchanges of sizes and barriers also go over the devices, on the group's own stream.
 * Operations begin on the device in the order of the calls, even on different streams. NCCL 2.26
 * and later provides this order (NCCL_LAUNCH_ORDER_IMPLICIT; the group sets the variable unless the
 * environment has it). For older versions the group orders operations with events.
 *
 * A thread of the group watches the operations in progress. It aborts every communicator on an NCCL
 * error, when the rendezvous reports that a rank failed or is gone, or when an operation exceeds
 * the time-out. All enqueued operations then end with undefined results, and every call throws.
 *
 * The order of additions in a sum is NCCL's. It is the same in each run with the same ranks and
 * algorithm.
 */
class NcclGroup : public ProcessGroup {
 public:
  /** @brief How long the ranks wait for each other. */
  struct Options {
    std::chrono::milliseconds time_out{std::chrono::minutes{5}};  ///< for one operation
  };

  /**
   * @brief Sets CUDA_MODULE_LOADING to EAGER unless it is set. Call it before the process makes its
   *        first CUDA call.
   *
   * By default CUDA loads a kernel at its first launch, and that load may wait for the device. The
   * device may be in a collective that waits for another rank, which waits for the kernel that this
   * rank is launching: a deadlock.
   */
  static void prepare_process();

  /**
   * @brief Makes the group. Every rank calls it.
   * @param device      a CudaDevice, on a different GPU for each rank; outlives the group
   * @param rendezvous  connects all ranks; outlives the group
   * @throws std::runtime_error if NCCL cannot be loaded
   * @throws std::invalid_argument if `device` is not a CudaDevice
   */
  [[nodiscard]] static std::unique_ptr<NcclGroup> make(OrderedDevice& device,
                                                       Rendezvous& rendezvous,
                                                       const Options& options);

  /**
   * @brief Lets NCCL (2.19 and later) send and receive these bytes without an intermediate copy.
   * @param data   device memory that outlives the group, for instance a segment of an allocator
   * @param bytes  its size
   */
  virtual void register_memory(void* data, std::size_t bytes) = 0;

 protected:
  using ProcessGroup::ProcessGroup;
};

}  // namespace millrace
