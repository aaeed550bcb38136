#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "millrace/device/device.hpp"

namespace millrace::test {

/** @brief While it lives, calls of this thread count as calls of the library, not of the test. */
class InLibrary {
 public:
  InLibrary() noexcept { ++depth_; }
  ~InLibrary() { --depth_; }
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;
  [[nodiscard]] static bool now() noexcept { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

/** @brief While it lives, calls of this thread count as calls of an allocator. */
class InAllocator {
 public:
  InAllocator() noexcept { ++depth_; }
  ~InAllocator() { --depth_; }
  InAllocator(const InAllocator&) = delete;
  InAllocator& operator=(const InAllocator&) = delete;
  [[nodiscard]] static bool now() noexcept { return depth_ > 0; }

 private:
  InLibrary in_library_;
  static inline thread_local int depth_ = 0;
};

/** @brief Fails a chosen driver call of the library; calls that the test makes are not counted. */
class LibraryFault final : public DeviceObserver {
 public:
  struct Fault {
    Call call;
    std::uint64_t nth;  ///< number among the calls of its kind, from 1
    ErrorCode code;
  };

  void plan(Fault fault) { fault_ = fault; }
  /** @brief While it is on, a lost device works, so that the test itself can use it. */
  void suspend(bool on) noexcept { suspended_ = on; }
  void before(Call call) override;

  [[nodiscard]] bool planned() const noexcept { return fault_.has_value(); }
  [[nodiscard]] bool struck() const noexcept { return struck_; }
  [[nodiscard]] bool device_lost() const noexcept { return lost_; }
  /** @brief Returns the number of calls of this kind that the library made. */
  [[nodiscard]] std::uint64_t seen(Call call) const noexcept {
    return seen_[static_cast<std::size_t>(call)];
  }

 private:
  std::optional<Fault> fault_;
  std::array<std::uint64_t, static_cast<std::size_t>(Call::count_)> seen_{};
  bool struck_ = false;
  bool lost_ = false;
  bool suspended_ = false;
};

}  // namespace millrace::test
