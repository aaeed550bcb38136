#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/device/ordered_device.hpp"
#include "millrace/pipeline/collective/collective_error.hpp"

namespace millrace {

/** @brief What a rank tells the others beside its sizes. */
enum class RankState : std::uint8_t {
  ok,
  exhausted,  ///< it has no more batches
  failed,     ///< it can not go on
};

/** @brief What came of an exchange of sizes. */
struct ExchangedSizes {
  std::vector<RankState> states;     ///< of each rank
  std::vector<std::int64_t> values;  ///< [ranks x width]: what each rank sent to this one
};

/** @brief An exchange of sizes under way. */
class PendingSizes {
 public:
  /** @brief Before `wait` has returned or thrown it fails the group: the others wait for more. */
  virtual ~PendingSizes() = default;
  PendingSizes(const PendingSizes&) = delete;
  PendingSizes& operator=(const PendingSizes&) = delete;

  /**
   * @brief Blocks the host until every rank has started; once.
   * @throws CollectiveError if a rank failed, or left without starting
   */
  [[nodiscard]] virtual ExchangedSizes wait() = 0;

 protected:
  PendingSizes() = default;
};

/** @brief Device memory for one other rank. */
struct SentBytes {
  const void* data = nullptr;
  std::size_t bytes = 0;
};
/** @brief Device memory that what another rank sent goes to. */
struct ReceivedBytes {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/**
 * @brief One of several ranks, each with a device, that exchange data: threads, processes, GPUs.
 *
 * Every rank calls the same operations in the same order, from one thread. Those on device memory
 * are enqueued on the stream given: work that is there later finds the result, and no part of one
 * begins before every rank's stream has come to it. Some groups block the host for that; see where
 * they are made. Exchanges of sizes and barriers are the host's.
 *
 * All may throw CollectiveError, once a rank has failed or left: on every rank that needs it, with
 * that rank's name. Device work that waited for it ends then, and its results mean nothing; who
 * only waits for a stream calls `check` after that. What else an operation throws (DeviceError,
 * say) has failed the group as well, for its part is not there; only std::invalid_argument has not:
 * nothing has happened then. Destroying a group leaves it. That is an error only for those that
 * still need this rank. A rank that is unwound by an exception leaves so; one that stays calls
 * `fail`.
 */
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] unsigned rank() const noexcept { return rank_; }
  [[nodiscard]] unsigned size() const noexcept { return size_; }
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "threads", "mpi", "nccl"

  /**
   * @brief Sends each rank a few numbers and the state of this one, and goes on.
   * @param values  [ranks x width], those of rank r from r * width on; as wide on every rank
   * @throws std::invalid_argument if they do not divide among the ranks
   */
  [[nodiscard]] std::unique_ptr<PendingSizes> start_sizes(RankState state,
                                                          std::span<const std::int64_t> values);
  /** @brief Starts, and waits. */
  [[nodiscard]] ExchangedSizes exchange_sizes(RankState state,
                                              std::span<const std::int64_t> values);
  /** @brief Blocks the host until every rank is here. */
  void barrier();

  /**
   * @brief Rank r gets `sends[r]` into what it calls `receives` of this rank; so for itself.
   * @throws std::invalid_argument if there is not one of each for every rank, or what this rank
   *         sends itself is not as large as what it receives from itself
   */
  void all_to_all(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives,
                  StreamRef stream);
  /**
   * @brief Replaces `data` by its sum over the ranks.
   *
   * ((rank 0 + rank 1) + rank 2) + ...: the same bits on each rank and in each run. NCCL adds in an
   * order of its own.
   */
  void all_reduce_sum(float* data, std::size_t count, StreamRef stream);
  /** @throws std::invalid_argument if there is no rank `root` */
  void broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream);

  /** @brief This rank can not go on: all others are told, whatever they wait for. First one wins.
   */
  virtual void fail(const std::string& why) noexcept = 0;
  /** @brief Asks whether a rank has failed. @throws CollectiveError if one has */
  virtual void check() = 0;

 protected:
  ProcessGroup(unsigned rank, unsigned size);

 private:
  virtual std::unique_ptr<PendingSizes> do_start_sizes(RankState state,
                                                       std::span<const std::int64_t> values) = 0;
  virtual void do_barrier() = 0;
  virtual void do_all_to_all(std::span<const SentBytes> sends,
                             std::span<const ReceivedBytes> receives, StreamRef stream) = 0;
  virtual void do_all_reduce_sum(float* data, std::size_t count, StreamRef stream) = 0;
  virtual void do_broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream) = 0;

  const unsigned rank_, size_;
};

}  // namespace millrace
