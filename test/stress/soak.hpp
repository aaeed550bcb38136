#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "millrace/memory/caching_allocator.hpp"

namespace millrace::test {

/// What threads do to allocators for a while. Each of them has a seed that follows from this one;
/// how they meet does not.
struct Soak {
  unsigned threads = 4;
  std::chrono::milliseconds time{1000};
  std::uint64_t seed = 1;
  unsigned devices = 2;
  std::size_t memory_bytes = std::size_t{64} << 20;  ///< of each
  std::optional<int> gpu{};                          ///< devices are this GPU; else threads
  Policy policy = Policy::millrace();
  /// Puts an allocator of the test's own before each.
  std::function<std::unique_ptr<Allocator>(Allocator&)> wrap{};
};

struct SoakResult {
  std::uint64_t steps = 0;
  std::uint64_t checked = 0;    ///< reads that found out what is in a block
  std::uint64_t corrupted = 0;  ///< that found what somebody else had written
  std::uint64_t out_of_memory = 0;
  std::uint64_t generations = 0;  ///< of threads
  std::size_t left_bytes = 0;     ///< reserved in the end, after everything was freed and trimmed
  std::string failure;            ///< what a thread died of, or the first invariant that was broken
};

/**
 * @brief Real threads, of which some die and others take their place, allocate on streams that all
 *        share and on their own, write and read there, pass blocks on to each other and free them
 * in every way that there is. What a block holds is checked by each kernel that reads it.
 */
[[nodiscard]] SoakResult soak(const Soak& options);

}  // namespace millrace::test
