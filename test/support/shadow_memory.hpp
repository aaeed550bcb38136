#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace millrace::test {

/// The content of memory if every write happened when it was enqueued. Each write has a number. A
/// byte of a write follows from that number and from its offset in the write.
class ShadowMemory {
 public:
  /// A part of a range, and the write that it is from.
  struct Part {
    std::size_t at = 0;  ///< within the range
    std::size_t bytes = 0;
    std::uint64_t write = 0;
    std::size_t first = 0;  ///< the write's byte that lies at `at`
  };

  /// @return the number of the write
  std::uint64_t write(const void* address, std::size_t bytes);
  /// Returns what a read of the range must see, without the bytes that were never written.
  [[nodiscard]] std::vector<Part> read(const void* address, std::size_t bytes) const;
  /// Makes the content of the range unknown.
  void forget(const void* address, std::size_t bytes);

  static void fill(std::span<std::byte> range, std::uint64_t write);
  [[nodiscard]] static bool holds(std::span<const std::byte> range, const Part& part);

 private:
  struct Interval {
    std::uintptr_t end;
    std::uint64_t write;
    std::uintptr_t base;  ///< address of the write
  };

  std::map<std::uintptr_t, Interval> intervals_;
  std::uint64_t writes_ = 0;
};

}  // namespace millrace::test
