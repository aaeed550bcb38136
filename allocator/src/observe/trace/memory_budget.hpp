#pragma once

#include <cstdint>
#include <string>

#include "millrace/observe/trace/limits.hpp"

namespace millrace::trace {

/** @brief Most memory that the contents of a file may take, and the message if they take more. */
class MemoryBudget {
 public:
  /**
   * @param inflated  bytes of the file after gunzip
   * @param limits    the limits; `for_gzip` may have lowered `max_memory`
   */
  MemoryBudget(std::uint64_t inflated, const TraceLimits& limits);

  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }
  /** @brief Returns what is wrong and what would be right, for a ParseError. */
  [[nodiscard]] static std::string problem();

  /** @brief Returns the limits of a file whose gzip has `compressed` bytes. */
  [[nodiscard]] static TraceLimits for_gzip(const TraceLimits& limits, std::uint64_t compressed);

 private:
  std::uint64_t most_;
};

}  // namespace millrace::trace
