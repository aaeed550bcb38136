#pragma once

#include <memory>

#include "millrace/device/executor.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace {

namespace collective {
struct SharedRanks;
}

/** @brief What lies between virtual devices: each has one link, that carries as much in as out. */
struct LinkModel {
  Nanoseconds latency{10'000};      ///< of each operation
  double bytes_per_second = 376e9;  ///< in each direction; what the h200 profile has between peers
};

/**
 * @brief The ranks of one process, each a host actor of one executor.
 *
 * On devices of a virtual machine, operations on device memory are meetings (millrace/device/
 * meeting.hpp): enqueued without blocking, and timed by the link model. They then begin together,
 * and end together after
 *
 *   all-to-all   latency + the most bytes that a rank sends to or gets from others / link
 *   all-reduce   latency + 2 (ranks - 1) / ranks * bytes / link    (a ring)
 *   broadcast    latency + bytes / link
 *
 * or as long as their traffic in device memory takes, if that is longer. On other devices the bytes
 * go through pinned memory, and operations block the host until all ranks are there; several ranks
 * may share a GPU.
 *
 * A thread that dies leaves its group by unwinding. One that never comes is waited for for ever; a
 * virtual machine says so (`Deadlock`).
 */
class ThreadRanks {
 public:
  struct Options {
    LinkModel link;
    bool cost_only = false;  ///< virtual devices: data are left alone, time and accesses are not
  };

  /** @brief For devices of `machine`, which outlives the groups. */
  ThreadRanks(unsigned ranks, VirtualMachine& machine, const Options& options);
  ThreadRanks(unsigned ranks, VirtualMachine& machine);
  /** @brief For other devices. */
  ThreadRanks(unsigned ranks, Executor& executor);
  ~ThreadRanks();  ///< groups may outlive it
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  [[nodiscard]] unsigned size() const noexcept;

  /**
   * @brief The group as rank `rank` sees it, to be used by its actor. Once for each rank.
   * @param device  of the rank; outlives the group
   * @throws std::invalid_argument if there is no such rank, or it has joined; if the ranks are a
   *         virtual machine's and the device is not virtual
   */
  [[nodiscard]] std::unique_ptr<ProcessGroup> join(unsigned rank, OrderedDevice& device);

 private:
  std::shared_ptr<collective::SharedRanks> ranks_;
};

}  // namespace millrace
