#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief The streams of a replay: one for each stream of the log.
 *
 * With PyTorch's pools, each pool of a stream has its own one, because PyTorch separates the blocks
 * of pools as it separates those of streams.
 */
class ReplayLanes {
 public:
  /**
   * @param by_pool     whether lanes are also separated by PyTorch's pools
   * @param expandable  whether blocks of expandable segments get their recorded addresses as well
   */
  ReplayLanes(const trace::AllocationLog& log, OrderedDevice& device, bool by_pool, bool expandable)
      : log_(log), device_(device), by_pool_(by_pool), expandable_(expandable) {}

  /** @brief Returns the lane of one of PyTorch's cached segments. */
  [[nodiscard]] StreamRef of(const trace::TorchSegment& segment);
  /** @brief Returns the lane of one of PyTorch's pools. @param stream  the stream's handle */
  [[nodiscard]] StreamRef of(std::uint64_t stream, trace::TorchPool pool) {
    return lane({stream, pool, false});
  }
  /** @param index  index into the log's streams */
  [[nodiscard]] StreamRef of(const trace::LoggedBlock& block, std::uint32_t index);
  /** @brief Returns the lane of a stream in one of Millrace's traces. Each stream has one there. */
  [[nodiscard]] StreamRef of_stream(std::uint32_t index);

  /** @brief Returns the recorded handle of a lane's stream; 0: the default stream. If none was
   * recorded, or another stream had it before, returns a number above all recorded ones. */
  [[nodiscard]] std::uint64_t handle(StreamId lane) const { return handles_.at(lane); }

  /** @brief Returns whether a block is in no segment that can be modeled. */
  [[nodiscard]] bool apart(const trace::LoggedBlock& block) const {
    return (block.expandable && !expandable_) || !block.placed;
  }

 private:
  using Key = std::tuple<std::uint64_t, trace::TorchPool, bool>;  // handle, pool, apart

  StreamRef lane(const Key& key);
  [[nodiscard]] std::uint64_t free_handle();

  const trace::AllocationLog& log_;
  OrderedDevice& device_;
  const bool by_pool_;
  const bool expandable_;
  std::map<Key, std::unique_ptr<Stream>> lanes_;
  std::vector<std::optional<StreamRef>> of_stream_;
  std::vector<std::unique_ptr<Stream>> made_;
  std::map<StreamId, std::uint64_t> handles_;
  std::set<std::uint64_t> used_handles_;
  std::uint64_t next_handle_ = 0;  // above all recorded handles
  bool has_legacy_ = false;
};

}  // namespace millrace
