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

/// Options of a run in which threads use allocators. The seed of each thread follows from `seed`,
/// but the interleaving of the threads is not repeatable.
struct Soak {
  unsigned threads = 4;
  std::chrono::milliseconds time{1000};
  std::uint64_t seed = 1;
  unsigned devices = 2;
  std::size_t memory_bytes = std::size_t{64} << 20;  ///< of each device
  std::optional<int> gpu{};                          ///< GPU for all devices; without it, threads
  Policy policy = Policy::millrace();
  /// Wraps each allocator in one of the test.
  std::function<std::unique_ptr<Allocator>(Allocator&)> wrap{};
};

struct SoakResult {
  std::uint64_t steps = 0;
  std::uint64_t checked = 0;    ///< reads that checked the content of a block
  std::uint64_t corrupted = 0;  ///< reads that found another value
  std::uint64_t out_of_memory = 0;
  std::uint64_t generations = 0;  ///< generations of threads
  std::size_t left_bytes = 0;     ///< reserved at the end, after all was freed and trimmed
  std::string failure;            ///< the error that ended a thread, or the first broken invariant
};

/**
 * @brief Real threads allocate on shared streams and on their own streams, write and read blocks,
 *        pass them to each other, and free them in every way. Threads end and others replace them.
 *        Each kernel that reads a block checks its content.
 */
[[nodiscard]] SoakResult soak(const Soak& options);

}  // namespace millrace::test
