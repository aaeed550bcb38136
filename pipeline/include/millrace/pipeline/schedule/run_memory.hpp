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

/** @brief The allocators of device memory that a run can have. */
inline constexpr std::array<std::string_view, 3> kAllocatorNames{"torch", "millrace", "driver"};

struct RunMemoryOptions {
  std::string allocator = "millrace";  ///< one of kAllocatorNames
  std::optional<Policy> policy{};      ///< in place of that of `allocator`
  CopyMethod method = CopyMethod::side_stream;
  Executor* executor = nullptr;  ///< whose actors the checker has to know of
  bool check = false;            ///< looks for races
  /** Looks for them on several devices at once, and is attached to this one; in place of `check`.
   */
  CheckingObserver* checking = nullptr;
  std::size_t keep = 0;  ///< see AllocationTrace::Options
};

/** @brief The allocators of one run on one device, and a trace of those of device memory. */
class RunMemory {
 public:
  /** @param device  outlives this
   *  @throws std::invalid_argument if there is no such allocator */
  RunMemory(OrderedDevice& device, const RunMemoryOptions& options);
  ~RunMemory();
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

  [[nodiscard]] Allocator& memory() noexcept;
  /** @brief The allocator of batches: `memory()`, or one with the driver's pool. */
  [[nodiscard]] Allocator& batches() noexcept;
  [[nodiscard]] Allocator& pinned() noexcept;

  /** @brief Messages of the races found, on all devices of a given checker; nothing where none
   *         looked for them. */
  [[nodiscard]] std::optional<std::vector<std::string>> races() const;
  /** @brief Attributes all that the trace has kept. @param reserved  peak of the run, in bytes */
  [[nodiscard]] Ladder ladder(std::size_t reserved) const;
  [[nodiscard]] const AllocationTrace& trace() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/** @brief The messages of all races that a checker found. */
[[nodiscard]] std::vector<std::string> race_messages(const CheckingObserver& checking);

}  // namespace millrace
