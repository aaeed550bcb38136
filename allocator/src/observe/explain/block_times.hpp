#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief The events of a log at which each block is allocated, freed, and free.
 *
 * A freed block is free for its own stream at once, unless another stream used it. A snapshot shows
 * that by an event of its own. A trace of Millrace's shows when all work on a block was known to be
 * complete, that of its own stream too: here, that matters only for blocks that another stream used
 * or whose free another stream made. Memory that another block gets does not wait any longer.
 */
class BlockTimes {
 public:
  static constexpr std::uint32_t kNever = UINT32_MAX;

  explicit BlockTimes(const trace::AllocationLog& log);

  /** @brief kNever: before the log begins */
  [[nodiscard]] std::uint32_t allocated(std::uint32_t block) const { return allocated_[block]; }
  /** @brief kNever: before the log begins (`freed_before_start`), or not within the log */
  [[nodiscard]] std::uint32_t freed(std::uint32_t block) const { return freed_[block]; }
  /** @brief From here on its stream may use the memory again. kNever: not within the log */
  [[nodiscard]] std::uint32_t completed(std::uint32_t block) const { return completed_[block]; }

  [[nodiscard]] static std::optional<std::size_t> known(std::uint32_t event) {
    return event == kNever ? std::nullopt : std::optional<std::size_t>{event};
  }

 private:
  std::vector<std::uint32_t> allocated_, freed_, completed_;
};

/**
 * @brief Whether the frees of a log complete by an event of their own. Otherwise a freed block is
 *        free at once for the stream that freed it.
 */
[[nodiscard]] bool has_completions(const trace::AllocationLog& log);

}  // namespace millrace
