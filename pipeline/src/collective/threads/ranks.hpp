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
 * @brief What the ranks of a process share.
 *
 * Operations are numbered on each rank, host's and device's apart; those of one number belong
 * together. A host operation is a round: each rank posts what it sends to each, then takes what the
 * others posted for it. A device operation is a meeting, and what its parties say of their sizes.
 */
struct SharedRanks {
  using Bytes = std::vector<std::byte>;

  struct Post {
    std::string what;
    std::vector<Bytes> blocks;  ///< for each rank; taken by it
  };
  struct Round {
    std::vector<std::optional<Post>> posts;
    std::size_t taken = 0;  ///< by how many ranks
  };
  struct DeviceOperation {
    std::shared_ptr<Meeting> meeting;
    std::vector<std::optional<std::string>> joined;         ///< what each rank calls it
    std::vector<std::vector<std::size_t>> sends, receives;  ///< bytes, of those that joined
  };
  struct Failure {
    unsigned rank;
    std::string message;
  };

  SharedRanks(unsigned ranks, Executor& on, VirtualMachine* machine_of_devices,
              const ThreadRanks::Options& given);

  /** @throws std::invalid_argument if the rank is there already */
  void enter(unsigned rank);

  // Of the host's operations.
  void post(unsigned rank, std::uint64_t number, Post post);
  /** @brief Blocks until all have posted. @return what they posted for `rank` */
  [[nodiscard]] std::vector<Bytes> take(unsigned rank, std::uint64_t number);

  /** @brief What a device operation is, and what this rank gives and gets: bytes by rank. */
  struct Part {
    const char* what;
    std::vector<std::size_t> sends, receives;
  };
  /** @return the meeting of device operation `number`, made by the first rank that comes */
  [[nodiscard]] std::shared_ptr<Meeting> join(unsigned rank, std::uint64_t number, const Part& part,
                                              const Meeting::Effect& effect);

  void fail(unsigned rank, const std::string& why) noexcept;
  void leave(unsigned rank) noexcept;
  void check();

  Executor& executor;
  VirtualMachine* const machine;  ///< null: devices do not meet
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

/** @brief Rounds of the ranks of a process. Leaves the ranks when it goes. */
[[nodiscard]] std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<SharedRanks> ranks,
                                                               unsigned rank);

}  // namespace millrace::collective
