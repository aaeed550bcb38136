#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "millrace/device/ordered_device.hpp"
#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/collective/rendezvous.hpp"

namespace millrace {

/** @brief Whether NCCL can be loaded here. The library is looked for once in a process. */
struct NcclSupport {
  bool loaded = false;
  int version = 0;      ///< 22304 is 2.23.4
  std::string problem;  ///< why it is not, and how to get it; else ""
};
[[nodiscard]] NcclSupport nccl_support();

/**
 * @brief GPUs that exchange by NCCL, loaded at run time (libnccl.so.2, or what MILLRACE_NCCL
 * names).
 *
 * Operations on device memory are enqueued and block nobody. Each stream has a communicator of its
 * own, made when a stream is first used: that is collective, and waits for all ranks. Exchanges of
 * sizes and barriers go over the devices too, on a stream of the group's. On the device operations
 * begin in the order in which they were called, whatever their streams: by NCCL's own order of
 * launches from 2.26 on (NCCL_LAUNCH_ORDER_IMPLICIT, which is set unless the environment has it),
 * by events before.
 *
 * A thread of the group looks after what is under way: an error of NCCL's, a rank that failed or is
 * gone by the rendezvous, or an operation that has not ended in time aborts every communicator. All
 * that was enqueued then ends, its results mean nothing, and every call throws.
 *
 * Sums add up in NCCL's order, which is the same in each run with the same ranks and algorithm.
 */
class NcclGroup : public ProcessGroup {
 public:
  struct Options {
    std::chrono::milliseconds time_out{std::chrono::minutes{5}};  ///< of one operation
  };

  /**
   * @brief To be called before a process makes its first CUDA call: sets CUDA_MODULE_LOADING to
   *        EAGER, unless it is set.
   *
   * Otherwise CUDA loads a kernel when it is first launched, and that may wait for the device: for
   * a collective, say, which waits for a peer, which waits for what this rank was about to launch.
   */
  static void prepare_process();

  /**
   * @param device      a CudaDevice; another GPU on each rank; outlives the group
   * @param rendezvous  of all ranks; outlives the group
   * @throws std::runtime_error if there is no NCCL; std::invalid_argument for another device
   */
  [[nodiscard]] static std::unique_ptr<NcclGroup> make(OrderedDevice& device,
                                                       Rendezvous& rendezvous,
                                                       const Options& options);

  /**
   * @brief Lets NCCL move these bytes without a copy in between, where it can (2.19 and later).
   * @param data  device memory that stays until the group goes: an allocator's segment, say
   */
  virtual void register_memory(void* data, std::size_t bytes) = 0;

 protected:
  using ProcessGroup::ProcessGroup;
};

}  // namespace millrace
