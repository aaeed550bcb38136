#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/device/executor.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/driver_allocator.hpp"
#include "millrace/memory/segment_source.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"
#include "schedule/footprint/combined_trace.hpp"

namespace millrace {

struct CellMemoryOptions {
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
class CellMemory {
 public:
  /** @throws std::invalid_argument if there is no such allocator */
  CellMemory(OrderedDevice& device, const CellMemoryOptions& options);
  ~CellMemory();
  CellMemory(const CellMemory&) = delete;
  CellMemory& operator=(const CellMemory&) = delete;

  [[nodiscard]] Allocator& memory();
  /** @brief Of the batches: the same one, or one with the driver's pool. */
  [[nodiscard]] Allocator& batches() { return driver_ ? *driver_ : memory(); }
  [[nodiscard]] Allocator& pinned() {
    return checked_pinned_ ? static_cast<Allocator&>(*checked_pinned_) : pinned_;
  }

  /** @brief What the checker found; nothing where it did not look. */
  [[nodiscard]] std::optional<std::vector<std::string>> races() const;
  /** @brief Of all that the trace has kept. @param reserved  peak of the run */
  [[nodiscard]] Ladder ladder(std::size_t reserved) const;
  [[nodiscard]] const AllocationTrace& trace() const noexcept { return trace_.trace(); }

 private:
  void check(CheckingObserver& checking, Device& device);

  DeviceSource device_source_;
  PinnedSource pinned_source_;
  CachingAllocator pinned_;
  CombinedTrace trace_;
  std::unique_ptr<DriverAllocator> driver_;
  std::unique_ptr<CachingAllocator> caching_;
  std::unique_ptr<CheckingObserver> checking_;
  std::unique_ptr<CheckedAllocator> checked_, checked_pinned_;
};

}  // namespace millrace
