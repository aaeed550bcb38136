#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "millrace/device/ordered_device.hpp"
#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace {

/** @brief Whether this build has MPI. */
struct MpiSupport {
  bool built = false;
  std::string how_to_get;  ///< how to get it, in one line; "" if `built`
};
[[nodiscard]] MpiSupport mpi_support();

/**
 * @brief The processes that mpirun started.
 *
 * Make one object per process, at the start of `main`. Its groups must be destroyed before it.
 *
 * Operations on device memory go through pinned memory and block the host until every rank that
 * they need has called them. If a process dies, mpirun immediately ends the other processes,
 * returns an exit code other than 0 and names the rank. A process that hangs is detected by the
 * time-out.
 */
class MpiProcesses {
 public:
  /**
   * @brief Initializes MPI, unless the program did that already.
   * @throws std::runtime_error if this build has no MPI, or MPI does not support threads
   */
  MpiProcesses(int& argc, char**& argv);
  /**
   * @brief Finalizes MPI if the constructor initialized it.
   *
   * After a failure this may block until the other processes finalize MPI too.
   */
  ~MpiProcesses();
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  [[nodiscard]] unsigned rank() const noexcept { return rank_; }
  [[nodiscard]] unsigned size() const noexcept { return size_; }

  /** @brief How long the ranks wait for each other. */
  struct Options {
    /** Longest time that an operation waits for a rank. After it, that rank counts as failed. */
    std::chrono::milliseconds time_out{std::chrono::minutes{5}};
  };

  /**
   * @brief Makes a group of all processes. Every process makes the same groups in the same order.
   * @param device  the device of this rank; outlives the group
   */
  [[nodiscard]] std::unique_ptr<ProcessGroup> group(OrderedDevice& device, const Options& options);
  [[nodiscard]] std::unique_ptr<ProcessGroup> group(OrderedDevice& device) {
    return group(device, Options{});
  }

 private:
  unsigned rank_ = 0, size_ = 1;
  bool began_here_ = false;
};

}  // namespace millrace
