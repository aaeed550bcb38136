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

/** @brief The state that a rank sends to the others together with its sizes. */
enum class RankState : std::uint8_t {
  ok,
  exhausted,  ///< the rank has no more batches
  failed,     ///< the rank cannot continue
};

/** @brief The result of an exchange of sizes. */
struct ExchangedSizes {
  std::vector<RankState> states;     ///< the state of each rank
  std::vector<std::int64_t> values;  ///< [ranks x width]: what each rank sent to this one
};

/** @brief An exchange of sizes in progress. */
class PendingSizes {
 public:
  /** @brief Fails the group if `wait` has not returned or thrown, since others wait for this rank.
   */
  virtual ~PendingSizes() = default;
  PendingSizes(const PendingSizes&) = delete;
  PendingSizes& operator=(const PendingSizes&) = delete;

  /**
   * @brief Blocks the host until every rank has started the exchange. Call it once.
   * @throws CollectiveError if a rank failed, or left the group without starting the exchange
   */
  [[nodiscard]] virtual ExchangedSizes wait() = 0;

 protected:
  PendingSizes() = default;
};

/** @brief Device memory that is sent to one rank. */
struct SentBytes {
  const void* data = nullptr;
  std::size_t bytes = 0;
};
/** @brief Device memory that receives the bytes of one rank. */
struct ReceivedBytes {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/**
 * @brief This rank's view of a group of ranks that exchange data. Ranks are threads, processes or
 *        GPUs; each has a device.
 *
 * Every rank calls the same operations in the same order, from one thread. Operations on device
 * memory are enqueued on the given stream. Work enqueued on that stream later sees the result. An
 * operation begins on the device only when the streams of all ranks have reached it. Some groups
 * block the host until then; see ThreadRanks, MpiProcesses and NcclGroup. Exchanges of sizes and
 * barriers block the host.
 *
 * Errors:
 * - Every operation may throw CollectiveError, once a rank has failed or left the group. All ranks
 *   that need that rank get the error, with its number. Device work that waits for that rank then
 *   ends with undefined results. A program that only synchronizes a stream must therefore call
 *   `check` afterwards.
 * - Any other exception (for instance DeviceError) also fails the group, because this rank did not
 *   take part in the operation. After std::invalid_argument the group has not failed, and nothing
 *   has changed.
 * - Destroying the object leaves the group. That is an error only for ranks that still need this
 *   rank. A rank that unwinds after an exception leaves in this way. A rank that cannot continue
 *   and keeps the object calls `fail`.
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
   * @brief Starts to send numbers and the state of this rank to each rank. Does not block.
   * @param values  [ranks x width]; those for rank r begin at r * width; `width` is the same on
   *                every rank
   * @throws std::invalid_argument if the number of values is not a multiple of the number of ranks
   */
  [[nodiscard]] std::unique_ptr<PendingSizes> start_sizes(RankState state,
                                                          std::span<const std::int64_t> values);
  /** @brief Calls `start_sizes` and waits for the result. */
  [[nodiscard]] ExchangedSizes exchange_sizes(RankState state,
                                              std::span<const std::int64_t> values);
  /** @brief Blocks the host until every rank has called it. */
  void barrier();

  /**
   * @brief Sends `sends[r]` to each rank r and receives `receives[r]` from it, this rank included.
   * @param sends     one entry per rank; must stay valid until the stream has passed the operation
   * @param receives  one entry per rank; its size is the size that rank r sends
   * @throws std::invalid_argument if a list does not have one entry per rank, or the sizes of what
   *         this rank sends to itself and receives from itself differ
   */
  void all_to_all(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives,
                  StreamRef stream);
  /**
   * @brief Replaces `data` on every rank by its sum over the ranks.
   *
   * The order of additions is ((rank 0 + rank 1) + rank 2) + ..., so the bits are the same on each
   * rank and in each run. NCCL uses its own order.
   * @param count  number of floats, the same on every rank
   */
  void all_reduce_sum(float* data, std::size_t count, StreamRef stream);
  /**
   * @brief Copies `data` of rank `root` to `data` of every other rank.
   * @param bytes  the same on every rank
   * @throws std::invalid_argument if `root` is not a rank of the group
   */
  void broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream);

  /**
   * @brief Fails the group because this rank cannot continue.
   *
   * All other ranks get a CollectiveError, in whatever operation they wait. Only the first failure
   * of a group counts.
   * @param why  becomes part of the error's message
   */
  virtual void fail(const std::string& why) noexcept = 0;
  /** @brief Checks whether a rank has failed. Does not block. @throws CollectiveError if so */
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
