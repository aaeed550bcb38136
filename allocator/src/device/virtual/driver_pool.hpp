#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "device/virtual/memory.hpp"
#include "device/virtual/work.hpp"
#include "millrace/device/device.hpp"
#include "millrace/device/profile.hpp"

namespace millrace::simulation {

/**
 * @brief The driver's stream-ordered pool: segments of device memory, best fit over free ranges.
 *
 * A freed range remembers the free and its stream. Another stream may get the range if the policy
 * allows one of these reasons: the free has been executed, events order the stream after it, or the
 * pool adds the dependency itself. The pool adds one only when the device's memory is exhausted, as
 * CUDA documents it.
 */
class DriverPool {
 public:
  struct Grant {
    void* address = nullptr;  ///< nullptr if neither the pool nor the device can serve it
    std::vector<std::shared_ptr<WorkItem>> after;  ///< the allocation has to wait for these frees
  };

  DriverPool(DeviceMemory& memory, std::size_t granularity, const DriverPoolPolicy& policy);

  [[nodiscard]] Grant allocate(std::size_t bytes, const StreamState& stream);
  [[nodiscard]] bool owns(const void* address) const noexcept { return live_.contains(address); }
  /**
   * @brief Makes the range free for all streams once `item` is done, and before that for work that
   *        is ordered after it.
   */
  void free(const void* address, StreamState& stream, std::shared_ptr<WorkItem> item);
  /**
   * @brief Gives whole free segments back to the device while more than `keep` bytes are reserved.
   */
  void trim(std::size_t keep);

  void set_policy(const DriverPoolPolicy& policy) { policy_ = policy; }
  [[nodiscard]] const DriverPoolPolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] const DriverPoolInfo& info() const noexcept { return info_; }

 private:
  struct Free {
    std::shared_ptr<WorkItem> item;
    std::uint64_t stream;
    std::uint64_t number;  ///< number of this free on its stream, from 1
  };
  struct Range {
    std::size_t bytes = 0;
    std::vector<Free> frees;
  };
  using Ranges = std::map<std::byte*, Range>;
  struct Run {
    Ranges::iterator first;
    std::size_t bytes = 0;
  };

  [[nodiscard]] bool usable(const Free& free, const StreamState& stream) const;
  [[nodiscard]] bool usable(const Range& range, const StreamState& stream) const;
  [[nodiscard]] bool same_segment(const std::byte* a, const std::byte* b) const;
  /** @brief Returns the smallest run of neighboring free ranges that has `bytes` bytes. */
  template <typename Usable>
  [[nodiscard]] Run best_run(std::size_t bytes, Usable usable);
  Grant carve(Run run, std::size_t bytes, const StreamState& stream);
  bool grow(std::size_t bytes);
  void merge(Ranges::iterator range);
  bool merge_with_next(Ranges::iterator range);

  DeviceMemory& memory_;
  std::size_t granularity_;
  DriverPoolPolicy policy_;
  DriverPoolInfo info_;
  std::map<std::byte*, std::size_t> segments_;
  Ranges free_;
  std::map<const void*, std::size_t> live_;
};

/** @brief Adds everything that `other` knows to `clock`. */
void join(FreeClock& clock, const FreeClock& other);

}  // namespace millrace::simulation
