#pragma once

#include <cstdint>
#include <string>

#include "millrace/observe/trace/limits.hpp"

namespace millrace::trace {

/** @brief How much memory what a file holds may take, and the message when it takes more. */
class MemoryBudget {
 public:
  /**
   * @param inflated  bytes of the file after gunzip
   * @param limits    whose `max_memory` may be lowered by `for_gzip`
   */
  MemoryBudget(std::uint64_t inflated, const TraceLimits& limits);

  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }
  /** @brief What is wrong and what would be right, for a ParseError. */
  [[nodiscard]] static std::string problem();

  /** @brief The limits of a file whose gzip has `compressed` bytes. */
  [[nodiscard]] static TraceLimits for_gzip(const TraceLimits& limits, std::uint64_t compressed);

 private:
  std::uint64_t most_;
};

}  // namespace millrace::trace
