#pragma once

#include <cstdint>
#include <unordered_map>

#include "millrace/observe/allocation_trace.hpp"

namespace millrace {

/**
 * @brief One trace of two allocators of one device, with one numbering of allocations.
 *
 * The allocators must be used by one thread.
 */
class CombinedTrace {
 public:
  explicit CombinedTrace(const AllocationTrace::Options& options = {}) : trace_(options) {}

  [[nodiscard]] const AllocationTrace& trace() const noexcept { return trace_; }
  [[nodiscard]] AllocationObserver& first() noexcept { return first_; }
  [[nodiscard]] AllocationObserver& second() noexcept { return second_; }

 private:
  class Part final : public AllocationObserver {
   public:
    explicit Part(CombinedTrace& whole) : whole_(whole) {}
    void allocated(const AllocationEvent& event) override;
    void use_recorded(std::uint64_t id, StreamId stream) override;
    void freed(const FreeEvent& event) override;
    void segment_acquired(void* base, std::size_t bytes) override;
    void segment_released(void* base, std::size_t bytes) override;
    void pages_moved(void* to, void* from, std::size_t bytes) override;

   private:
    CombinedTrace& whole_;
    std::unordered_map<std::uint64_t, std::uint64_t> ids_;  // new numbers of live allocations
  };

  AllocationTrace trace_;
  std::uint64_t allocations_ = 0;
  Part first_{*this}, second_{*this};
};

}  // namespace millrace
