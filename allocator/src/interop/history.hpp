#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "millrace/memory/observer.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/call_stacks.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"
#include "millrace/observe/trace_snapshot.hpp"

namespace millrace::interop {

/** @brief Records the events of an allocator for snapshots, and forwards them to the program's own
 *         observer. */
class History final : public AllocationObserver {
 public:
  /**
   * @param allocations   most events that are kept
   * @param stack_frames  most frames of each allocation's stack; 0: no stacks
   */
  History(std::size_t allocations, std::size_t stack_frames);

  /**
   * @brief While it exists, the calling thread replays existing allocations into a history. They
   *        get no stack, and the program's observer does not get them.
   */
  class Reporting {
   public:
    Reporting() noexcept;
    ~Reporting();
    Reporting(const Reporting&) = delete;
    Reporting& operator=(const Reporting&) = delete;
  };

  /** @brief Forwards events to `observer` from now on; nullptr: to none. */
  void pass_on_to(AllocationObserver* observer) noexcept { next_ = observer; }
  void annotate(std::string name) { trace_.begin_window(std::move(name)); }
  /** @param options  everything except stacks and labels, which this object adds */
  [[nodiscard]] trace::TorchSnapshot snapshot(std::uint32_t device, SnapshotOptions options);

  void allocated(const AllocationEvent& event) override;
  void use_recorded(std::uint64_t id, StreamId stream) override;
  void freed(const FreeEvent& event) override;
  void segment_acquired(void* base, std::size_t bytes) override;
  void segment_released(void* base, std::size_t bytes) override;
  void pages_moved(void* to, void* from, std::size_t bytes) override;

 private:
  [[nodiscard]] static bool is_reporting() noexcept;

  template <typename Notify>
  void notify_next(const Notify& notify) {
    if (is_reporting()) return;
    if (AllocationObserver* const next = next_.load(std::memory_order_relaxed)) notify(*next);
  }

  std::optional<CallStacks> stacks_;
  AllocationTrace trace_;
  std::atomic<AllocationObserver*> next_{nullptr};
};

}  // namespace millrace::interop
