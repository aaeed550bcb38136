#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/host/transport.hpp"
#include "millrace/device/meeting.hpp"
#include "millrace/pipeline/collective/collective_error.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"

namespace millrace::collective {

/**
 * @brief The state that the ranks of a process share.
 *
 * Each rank numbers its host operations and, separately, its device operations. Operations with the
 * same number belong together. A host operation is a round: each rank posts the blocks for each
 * rank, then takes the blocks that the others posted for it. A device operation is a meeting, with
 * the sizes that its parties declare.
 */
struct SharedRanks {
  using Bytes = std::vector<std::byte>;

  struct Post {
    std::string what;
    std::vector<Bytes> blocks;  ///< one for each receiving rank, which takes it
  };
  struct Round {
    std::vector<std::optional<Post>> posts;
    std::size_t taken = 0;  ///< number of ranks that have taken their block
  };
  struct DeviceOperation {
    std::shared_ptr<Meeting> meeting;
    std::vector<std::optional<std::string>> joined;         ///< the operation's name on each rank
    std::vector<std::vector<std::size_t>> sends, receives;  ///< bytes, for ranks that have joined
  };
  struct Failure {
    unsigned rank;
    std::string message;
  };

  SharedRanks(unsigned ranks, Executor& on, VirtualMachine* machine_of_devices,
              const ThreadRanks::Options& given);

  /** @throws std::invalid_argument if the rank has joined already */
  void enter(unsigned rank);

  // Host operations.
  void post(unsigned rank, std::uint64_t number, Post post);
  /** @brief Blocks until all ranks have posted. @return the blocks that they posted for `rank` */
  [[nodiscard]] std::vector<Bytes> take(unsigned rank, std::uint64_t number);

  /** @brief The name of a device operation, and the bytes that this rank sends and receives. */
  struct Part {
    const char* what;
    std::vector<std::size_t> sends, receives;
  };
  /** @return the meeting of device operation `number`, made by the first rank that needs it */
  [[nodiscard]] std::shared_ptr<Meeting> join(unsigned rank, std::uint64_t number, const Part& part,
                                              const Meeting::Effect& effect);

  void fail(unsigned rank, const std::string& why) noexcept;
  void leave(unsigned rank) noexcept;
  void check();

  Executor& executor;
  VirtualMachine* const machine;  ///< nullptr: operations are not meetings
  const ThreadRanks::Options options;
  const unsigned size;

 private:
  void record_failure(unsigned rank, std::string message);
  void throw_failure() const;
  void check_alike(unsigned rank, unsigned peer, const std::string& mine,
                   const std::string& theirs);
  void check_missing(unsigned rank, const std::string& what, const std::vector<bool>& has_come);

  std::mutex mutex_;
  std::unique_ptr<Condition> changed_;
  std::map<std::uint64_t, Round> rounds_;
  std::map<std::uint64_t, DeviceOperation> operations_;
  std::vector<bool> entered_, left_;
  std::optional<Failure> failure_;
};

/** @brief A transport that uses rounds of the ranks of a process. The destructor leaves the group.
 */
[[nodiscard]] std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<SharedRanks> ranks,
                                                               unsigned rank);

}  // namespace millrace::collective
