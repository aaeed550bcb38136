#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "millrace/device/ordered_device.hpp"
#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace {

/** @brief Whether this build has MPI; else how to get it, in one line. */
struct MpiSupport {
  bool built = false;
  std::string how_to_get;  ///< "" if it is there
};
[[nodiscard]] MpiSupport mpi_support();

/**
 * @brief The processes that mpirun started. One in a process, first thing in main; its groups end
 *        before it does.
 *
 * Operations on device memory go through pinned memory and block the host until every rank that
 * they need is there. A process that dies takes the job with it: mpirun ends the others at once,
 * with an exit code other than 0, and names the rank. One that hangs is found by the time-out.
 */
class MpiProcesses {
 public:
  /**
   * @brief Initialises MPI, unless the program did.
   * @throws std::runtime_error if there is no MPI in this build, or it gives no threads
   */
  MpiProcesses(int& argc, char**& argv);
  /** @brief Ends MPI, if it began here. After a failure others may have to come to this as well. */
  ~MpiProcesses();
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  [[nodiscard]] unsigned rank() const noexcept { return rank_; }
  [[nodiscard]] unsigned size() const noexcept { return size_; }

  struct Options {
    /** How long an operation may wait for a rank before that rank is given up. */
    std::chrono::milliseconds time_out{std::chrono::minutes{5}};
  };

  /**
   * @brief A group of all processes. Every process makes the same groups in the same order.
   * @param device  of this rank; outlives the group
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
