#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace millrace::test {

/// What memory would hold if every write happened when it was enqueued: each write has a number,
/// and its bytes follow from that number and from where they lie in it.
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
  /// What a read of the range must see. Bytes that nobody wrote are left out.
  [[nodiscard]] std::vector<Part> read(const void* address, std::size_t bytes) const;
  /// The range is no longer known.
  void forget(const void* address, std::size_t bytes);

  static void fill(std::span<std::byte> range, std::uint64_t write);
  [[nodiscard]] static bool holds(std::span<const std::byte> range, const Part& part);

 private:
  struct Interval {
    std::uintptr_t end;
    std::uint64_t write;
    std::uintptr_t base;  ///< of the write
  };

  std::map<std::uintptr_t, Interval> intervals_;
  std::uint64_t writes_ = 0;
};

}  // namespace millrace::test
