#pragma once

#include <atomic>

#include "millrace/device/device.hpp"

namespace millrace {

/**
 * @brief The device of a pool's allocator. It runs nothing and makes no driver call.
 *
 * Its records and waits are the edges that the program reported. During a capture nothing
 * completes, since captured work runs when its graph is launched. After a capture everything is
 * complete, since graphs that share a pool never run at the same time.
 */
class CaptureDevice final : public Device {
 public:
  void set_capturing(bool capturing) noexcept { capturing_ = capturing; }

  std::string name() const override { return "capture"; }
  bool modeled() const override { return true; }
  bool has_driver_pool() const override { return false; }
  DriverPoolInfo pool_info() override { return {}; }
  StreamHandle per_thread_stream() override { return {this}; }

 private:
  [[noreturn]] static void refuse(const char* call) {
    throw DeviceError{ErrorCode::not_supported, call,
                      "a captured stream runs no work before its graph is launched"};
  }
  void refuse_while_capturing(const char* call) const {
    if (capturing_) throw DeviceError{ErrorCode::capture, call, "the capture has not ended"};
  }

  void* do_allocate(std::size_t) override { refuse("allocate"); }
  void do_free(void*) override {}
  void* do_allocate_host(std::size_t) override { refuse("allocate_host"); }
  void do_free_host(void*) override {}
  MemoryInfo do_memory_info() override { return {}; }
  void* do_allocate_async(std::size_t, StreamHandle) override { refuse("allocate_async"); }
  void do_free_async(void*, StreamHandle) override {}
  void do_trim_pool(std::size_t) override {}
  StreamHandle do_create_stream(const StreamOptions&) override { refuse("create_stream"); }
  void do_destroy_stream(StreamHandle) override {}
  std::uint64_t do_stream_id(StreamHandle stream) override {
    return reinterpret_cast<std::uintptr_t>(stream.value);
  }
  bool do_blocking(StreamHandle) override { return false; }
  CaptureStatus do_capture_status(StreamHandle) override {
    return capturing_ ? CaptureStatus::active : CaptureStatus::none;
  }
  bool do_query(StreamHandle) override { return !capturing_; }
  void do_synchronize(StreamHandle) override { refuse_while_capturing("synchronize"); }
  void do_synchronize() override { refuse_while_capturing("synchronize"); }
  EventHandle do_create_event(bool) override {
    return {reinterpret_cast<void*>(next_event_.fetch_add(1, std::memory_order_relaxed))};
  }
  void do_destroy_event(EventHandle) override {}
  void do_record(EventHandle, StreamHandle) override {}
  void do_wait(StreamHandle, EventHandle) override {}
  bool do_query(EventHandle) override { return !capturing_; }
  void do_synchronize(EventHandle) override { refuse_while_capturing("synchronize"); }
  Nanoseconds do_event_time(EventHandle) override { return {}; }
  void do_copy(void*, const void*, std::size_t, CopyKind, StreamHandle) override { refuse("copy"); }
  void do_fill(void*, unsigned char, std::size_t, StreamHandle) override { refuse("fill"); }
  void do_launch(Operation, StreamHandle) override { refuse("launch"); }
  void do_callback(StreamHandle, std::function<void()>, std::uint64_t) override {
    refuse("callback");
  }

  std::atomic<bool> capturing_{false};
  std::atomic<std::uintptr_t> next_event_{1};
};

}  // namespace millrace
