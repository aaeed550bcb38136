#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/device/checking.hpp"
#include "millrace/device/executor.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"

namespace millrace {

/** @brief Names of the allocators of device memory. */
inline constexpr std::array<std::string_view, 3> kAllocatorNames{"torch", "millrace", "driver"};

/** @brief Which allocators a run uses, and whether it checks for races. */
struct RunMemoryOptions {
  std::string allocator = "millrace";  ///< one of kAllocatorNames
  std::optional<Policy> policy{};      ///< replaces the policy of `allocator`
  CopyMethod method = CopyMethod::side_stream;
  Executor* executor = nullptr;  ///< the executor whose actors the checker observes
  bool check = false;            ///< whether to check for races
  /// A checker for several devices, which is attached to this one; replaces `check`.
  CheckingObserver* checking = nullptr;
  std::size_t keep = 0;  ///< see AllocationTrace::Options
};

/** @brief The allocators of one run on one device, with a trace of device memory. */
class RunMemory {
 public:
  /** @param device  outlives this object
   *  @throws std::invalid_argument if `options.allocator` is unknown */
  RunMemory(OrderedDevice& device, const RunMemoryOptions& options);
  ~RunMemory();
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

  [[nodiscard]] Allocator& memory() noexcept;
  /** @brief The allocator of batches: `memory()`, or one with the driver's pool. */
  [[nodiscard]] Allocator& batches() noexcept;
  [[nodiscard]] Allocator& pinned() noexcept;

  /** @brief Messages of the races found so far, on all devices of the checker; std::nullopt if the
   *         run does not check for races. */
  [[nodiscard]] std::optional<std::vector<std::string>> races() const;
  /** @brief The ladder of the recorded trace. @param reserved  peak of the run, in bytes */
  [[nodiscard]] Ladder ladder(std::size_t reserved) const;
  [[nodiscard]] const AllocationTrace& trace() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/** @brief The messages of all races that a checker found. */
[[nodiscard]] std::vector<std::string> race_messages(const CheckingObserver& checking);

}  // namespace millrace
