#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/memory/observer.hpp"
#include "millrace/observe/allocation_trace.hpp"

namespace millrace {

/** @brief Notes which segments one request took, and how much is held. */
class TakenSegments final : public AllocationObserver {
 public:
  /** @param trace  gets every call, too; nullptr: none does */
  explicit TakenSegments(AllocationTrace* trace) : trace_(trace) {}
  void allocated(const AllocationEvent& event) override {
    if (trace_ != nullptr) trace_->allocated(event);
  }
  void use_recorded(std::uint64_t id, StreamId stream) override {
    if (trace_ != nullptr) trace_->use_recorded(id, stream);
  }
  void freed(const FreeEvent& event) override {
    if (trace_ != nullptr) trace_->freed(event);
  }
  void segment_acquired(void* base, std::size_t bytes) override {
    if (trace_ != nullptr) trace_->segment_acquired(base, bytes);
    taken.push_back(bytes);
    reserved += bytes;
  }
  void segment_released(void* base, std::size_t bytes) override {
    if (trace_ != nullptr) trace_->segment_released(base, bytes);
    reserved -= bytes;
  }
  void pages_moved(void* to, void* from, std::size_t bytes) override {
    if (trace_ != nullptr) trace_->pages_moved(to, from, bytes);
  }

  std::vector<std::size_t> taken;
  std::size_t reserved = 0;

 private:
  AllocationTrace* const trace_;
};

}  // namespace millrace
