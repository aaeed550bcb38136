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

/** @brief Model of the interconnect of virtual devices: one full-duplex link per device. */
struct LinkModel {
  Nanoseconds latency{10'000};      ///< latency of each operation
  double bytes_per_second = 376e9;  ///< in each direction; value of the h200 profile
};

/**
 * @brief Ranks within one process; each rank is a host actor (a thread) of one executor.
 *
 * On devices of a virtual machine, operations on device memory are meetings (millrace/device/
 * meeting.hpp): they are enqueued without blocking and timed by the link model. An operation begins
 * at the same time on all ranks, and ends at the same time after
 *
 *   all-to-all   latency + max over ranks of the bytes sent to or received from others / link
 *   all-reduce   latency + 2 (ranks - 1) / ranks * bytes / link    (a ring)
 *   broadcast    latency + bytes / link
 *
 * or after the time that its traffic in device memory takes, if that is longer. On other devices
 * the bytes go through pinned memory, and operations block the host until all ranks have called
 * them; several ranks may share a GPU.
 *
 * A thread that ends with an exception leaves its group during unwinding. A group has no time-out:
 * an operation waits forever for a rank that never calls it. A virtual machine detects that and
 * throws Deadlock.
 */
class ThreadRanks {
 public:
  /** @brief How virtual devices model the exchange between ranks. */
  struct Options {
    LinkModel link;
    bool cost_only = false;  ///< virtual devices: account for time and accesses, move no data
  };

  /** @brief Ranks with devices of `machine`, which outlives the groups. */
  ThreadRanks(unsigned ranks, VirtualMachine& machine, const Options& options);
  ThreadRanks(unsigned ranks, VirtualMachine& machine);
  /** @brief Ranks with other devices. */
  ThreadRanks(unsigned ranks, Executor& executor);
  ~ThreadRanks();  ///< groups may outlive this object
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  [[nodiscard]] unsigned size() const noexcept;

  /**
   * @brief Makes the group object of one rank. Call it once for each rank.
   * @param rank    the rank whose actor will use the group
   * @param device  the device of the rank; outlives the group
   * @throws std::invalid_argument if `rank` is out of range or has joined already, or if the ranks
   *         are those of a virtual machine and the device is not virtual
   */
  [[nodiscard]] std::unique_ptr<ProcessGroup> join(unsigned rank, OrderedDevice& device);

 private:
  std::shared_ptr<collective::SharedRanks> ranks_;
};

}  // namespace millrace
