#pragma once

#include <cstdint>

namespace millrace::test {

/// While it lives, one `operator new` of this thread fails: the `number`-th, from 1.
class FailingHostMemory {
 public:
  explicit FailingHostMemory(std::uint64_t number) noexcept;
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
