#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief The events of a log at which each block is allocated, is freed, and becomes free.
 *
 * A freed block becomes free for its own stream at once, unless another stream used it. Snapshots
 * have a separate event for the moment when such a block becomes free. Millrace's traces show when
 * all work on a block was known to be complete, including that of its own stream. Here, this
 * matters only for blocks that another stream used or freed. A block whose memory another block
 * gets does not wait any longer.
 */
class BlockTimes {
 public:
  static constexpr std::uint32_t kNever = UINT32_MAX;

  explicit BlockTimes(const trace::AllocationLog& log);

  /** @brief kNever: before the log begins */
  [[nodiscard]] std::uint32_t allocated(std::uint32_t block) const { return allocated_[block]; }
  /** @brief kNever: before the log begins (`freed_before_start`), or not within the log */
  [[nodiscard]] std::uint32_t freed(std::uint32_t block) const { return freed_[block]; }
  /** @brief The event from which its stream may use the memory again. kNever: not within the log */
  [[nodiscard]] std::uint32_t completed(std::uint32_t block) const { return completed_[block]; }

  [[nodiscard]] static std::optional<std::size_t> known(std::uint32_t event) {
    return event == kNever ? std::nullopt : std::optional<std::size_t>{event};
  }

 private:
  std::vector<std::uint32_t> allocated_, freed_, completed_;
};

/**
 * @brief Returns whether the log has a separate event for the completion of a free. Otherwise a
 *        freed block is free at once for the stream that freed it.
 */
[[nodiscard]] bool has_completions(const trace::AllocationLog& log);

}  // namespace millrace
