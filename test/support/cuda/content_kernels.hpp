#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace::test {

/// The 8-byte words of a block that are written and checked: every `stride`-th word, and the last
/// one if `last` is set.
struct SampledWords {
  std::byte* data = nullptr;
  std::size_t words = 0;   ///< number of words of the block
  std::size_t stride = 1;  ///< in words
  bool last = false;
};

/**
 * @brief Kernels that fill a block with a value and check the value later, for tests on a GPU.
 *        Thread-safe. Create and use it with its device current. It must outlive the enqueued work.
 */
class ContentKernels {
 public:
  struct Findings {
    std::uint64_t checked = 0;    ///< kernels that checked a block
    std::uint64_t corrupted = 0;  ///< kernels that found another value
  };

  virtual ~ContentKernels() = default;
  /// A kernel waits `nanoseconds` before it accesses the block, so that missing order shows.
  virtual void fill(void* stream, const SampledWords& words, std::uint64_t value,
                    std::uint64_t nanoseconds) = 0;
  virtual void check(void* stream, const SampledWords& words, std::uint64_t value,
                     std::uint64_t nanoseconds) = 0;
  /// Call it when the device is idle.
  [[nodiscard]] virtual Findings findings() = 0;
};

[[nodiscard]] std::unique_ptr<ContentKernels> make_content_kernels(int ordinal);

}  // namespace millrace::test
