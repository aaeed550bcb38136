#pragma once

#include <cstdint>

namespace millrace::test {

/// While it lives, some `operator new` of this thread fail: the `number`-th, from 1, and so many in
/// all, one after the other.
class FailingHostMemory {
 public:
  explicit FailingHostMemory(std::uint64_t number, std::uint64_t failures = 1) noexcept;
  ~FailingHostMemory();
  FailingHostMemory(const FailingHostMemory&) = delete;
  FailingHostMemory& operator=(const FailingHostMemory&) = delete;

  [[nodiscard]] static bool failed() noexcept;  ///< since the latest one began

  /// While it lives, none fails, and none is counted.
  class Paused {
   public:
    Paused() noexcept;
    ~Paused();
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;

   private:
    const std::uint64_t left_;
  };
};

}  // namespace millrace::test
