#pragma once

#include <cstdint>

namespace millrace::test {

/// While it lives, `failures` consecutive calls of `operator new` of this thread fail. The first
/// one is the `number`-th call, counted from 1.
class FailingHostMemory {
 public:
  explicit FailingHostMemory(std::uint64_t number, std::uint64_t failures = 1) noexcept;
  ~FailingHostMemory();
  FailingHostMemory(const FailingHostMemory&) = delete;
  FailingHostMemory& operator=(const FailingHostMemory&) = delete;

  [[nodiscard]] static bool failed() noexcept;  ///< since the latest object began

  /// While it lives, no call fails and no call is counted.
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
