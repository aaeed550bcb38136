#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/device/ordered_device.hpp"
#include "process/recorder.hpp"

namespace millrace::interpose {

/**
 * @brief Records the program's calls on one GPU: its blocks by address, and each stream at its
 *        first use.
 */
class GpuLog {
 public:
  GpuLog(Recorder& recorder, OrderedDevice& order, int ordinal, std::size_t memory_bytes);

  /** @param stream  a result of OrderedDevice::resolve */
  void allocated(const void* address, std::size_t bytes, StreamRef stream);
  /** @brief The memory may be used on all streams at once. */
  void allocated_for_all(const void* address, std::size_t bytes);

  /** @brief A request failed for lack of memory. @param stream  nothing: for all streams */
  void out_of_memory(std::size_t bytes, std::optional<StreamRef> stream);

  /** @brief Call it before the program's free. @return the block's number; nothing if not known */
  std::optional<std::uint64_t> freed(const void* address, StreamRef stream);
  /** @brief The same, if all work that uses the block is complete. */
  std::optional<std::uint64_t> freed_completed(const void* address);
  /** @brief The free failed, so the block is live again. */
  void not_freed(const void* address, std::size_t bytes, std::optional<StreamRef> stream);
  /** @brief The stream of a block; nothing for memory of all streams or an unknown block. */
  [[nodiscard]] std::optional<StreamRef> stream_of(const void* address);

  /** @brief The stream's next marker, which covers all its work so far. Take it before a free,
   *         because the free records this marker. */
  [[nodiscard]] Point next_marker(StreamRef stream) const;
  /** @brief Records the completion of a freed block's work when the marker `point` is complete. */
  void await(std::uint64_t block, Point point);

  /** @name The order of the program's streams @{ */
  void marked(StreamRef stream, Point marker);
  void waited(StreamRef stream, Point marker);
  /** @param queried  whether a query proved it */
  void passed(Point marker, bool queried);
  void passed_stream(StreamRef stream, bool queried);
  /** @brief A query found that the marker was not complete. */
  void not_passed(Point marker);
  void stream_not_passed(StreamRef stream);
  void passed_device();
  void closed(StreamRef stream);
  /** @} */

  /** @brief The program's own allocators got or returned memory. @param address  null if unknown */
  void reserved(const void* address, std::size_t bytes);
  void released(const void* address, std::size_t bytes);

  /** @brief The driver's pool keeps `bytes` at synchronizations from now on. */
  void pool_keeps(std::uint64_t bytes);
  /** @brief The program trimmed the driver's pool to `bytes`. */
  void pool_trimmed(std::uint64_t bytes);

 private:
  struct Awaited {
    std::uint64_t block;
    Point point;
  };

  [[nodiscard]] std::uint32_t number(StreamRef stream);
  [[nodiscard]] std::uint32_t number_for_all();
  [[nodiscard]] std::optional<std::uint32_t> find(StreamId stream);
  std::optional<std::uint64_t> take(const void* address);
  void add(const void* address, std::size_t bytes, std::optional<StreamRef> stream);
  void settle();

  Recorder& recorder_;
  trace::TraceWriter& writer_;
  OrderedDevice& order_;
  const std::uint32_t device_;
  std::mutex mutex_;  // guards the members below
  std::unordered_map<StreamId, std::uint32_t> streams_;
  std::optional<std::uint32_t> for_all_;
  std::optional<std::uint64_t> pool_keeps_;  // written with the first allocation
  struct Block {
    std::uint64_t number = 0;
    std::optional<StreamRef> stream;
  };
  std::unordered_map<const void*, Block> blocks_;
  std::vector<std::deque<Awaited>> awaited_;  // one queue per stream, in marker order
  std::unordered_map<StreamId, std::size_t> queue_of_;
};

}  // namespace millrace::interpose
