#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/machine/null_events.hpp"
#include "allocator/machine/null_memory.hpp"
#include "millrace/device/device.hpp"

namespace millrace::bench {

/// A device whose calls return immediately. It has addresses without memory and streams without
/// work.
class NullDevice final : public Device {
 public:
  NullDevice(NullMemory& memory, NullEvents& events) : memory_(memory), events_(events) {}

  std::string name() const override { return "null"; }
  bool modeled() const override { return true; }
  bool has_driver_pool() const override { return false; }
  StreamHandle per_thread_stream() override;
  std::size_t page_bytes() const override { return memory_.page(); }
  bool can_alias() const override { return true; }

  /// Returns a new handle. `blocking`: it synchronizes with the legacy stream.
  [[nodiscard]] StreamHandle new_stream(bool blocking);

 private:
  void* do_allocate(std::size_t bytes) override;
  void do_free(void* address) override { memory_.free(address); }
  void* do_allocate_host(std::size_t bytes) override;
  void do_free_host(void* address) override;
  MemoryInfo do_memory_info() override;
  void* do_reserve_range(std::size_t bytes) override;
  void do_release_range(void*, std::size_t) override {}
  void do_map(void* address, std::size_t bytes) override;
  void do_unmap(void* address, std::size_t bytes) override { memory_.unmap(address, bytes); }
  void do_alias(void* to, void* from, std::size_t bytes) override {
    memory_.alias(to, from, bytes);
  }
  StreamHandle do_create_stream(const StreamOptions& options) override;
  void do_destroy_stream(StreamHandle) override {}
  std::uint64_t do_stream_id(StreamHandle stream) override;
  bool do_blocking(StreamHandle stream) override;
  bool do_query(StreamHandle) override { return !events_.busy(); }
  void do_synchronize(StreamHandle) override {}
  void do_synchronize() override {}
  EventHandle do_create_event(bool) override { return events_.create(); }
  void do_destroy_event(EventHandle event) override { events_.destroy(event); }
  void do_record(EventHandle event, StreamHandle) override { events_.record(event); }
  void do_wait(StreamHandle, EventHandle) override {}
  bool do_query(EventHandle event) override { return events_.complete(event); }
  void do_synchronize(EventHandle event) override { events_.force(event); }
  Nanoseconds do_event_time(EventHandle) override { return Nanoseconds{0}; }
  void do_copy(void*, const void*, std::size_t, CopyKind, StreamHandle) override {}
  void do_fill(void*, unsigned char, std::size_t, StreamHandle) override {}
  void do_launch(Operation, StreamHandle) override {}
  void do_callback(StreamHandle, std::function<void()> function, std::uint64_t) override;

  NullMemory& memory_;
  NullEvents& events_;
  std::atomic<std::uint64_t> streams_ = 0;
};

}  // namespace millrace::bench
