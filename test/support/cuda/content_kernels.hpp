#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace::test {

/// Which 8-byte words of a block are written and checked: every so many, and the last if asked for.
struct SampledWords {
  std::byte* data = nullptr;
  std::size_t words = 0;   ///< of the block
  std::size_t stride = 1;  ///< in words
  bool last = false;
};

/**
 * @brief Kernels that fill a block with a value and check that it is still there, for tests on a
 *        GPU. Thread-safe. Made and used with its device current; outlives what is enqueued.
 */
class ContentKernels {
 public:
  struct Findings {
    std::uint64_t checked = 0;    ///< kernels that looked
    std::uint64_t corrupted = 0;  ///< and found something else
  };

  virtual ~ContentKernels() = default;
  /// Each waits as long on the device before it touches the block, so that a mistake shows.
  virtual void fill(void* stream, const SampledWords& words, std::uint64_t value,
                    std::uint64_t nanoseconds) = 0;
  virtual void check(void* stream, const SampledWords& words, std::uint64_t value,
                     std::uint64_t nanoseconds) = 0;
  /// Once the device is idle.
  [[nodiscard]] virtual Findings findings() = 0;
};

[[nodiscard]] std::unique_ptr<ContentKernels> make_content_kernels(int ordinal);

}  // namespace millrace::test
