#pragma once

#include <functional>
#include <string>
#include <utility>

#include "millrace/device/device.hpp"

namespace millrace {

/** @brief Hands every call on to another device, which outlives it. For devices that change a
 * little. */
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& device) : device_(device) {}

  std::string name() const override { return device_.name(); }
  bool modeled() const override { return device_.modeled(); }
  bool has_driver_pool() const override { return device_.has_driver_pool(); }
  DriverPoolInfo pool_info() override { return device_.pool_info(); }
  StreamHandle per_thread_stream() override { return device_.per_thread_stream(); }
  std::size_t page_bytes() const override { return device_.page_bytes(); }
  bool can_alias() const override { return device_.can_alias(); }

 protected:
  void* do_allocate(std::size_t bytes) override { return device_.allocate(bytes); }
  void do_free(void* address) override { device_.free(address); }
  void* do_allocate_host(std::size_t bytes) override { return device_.allocate_host(bytes); }
  void do_free_host(void* address) override { device_.free_host(address); }
  MemoryInfo do_memory_info() override { return device_.memory_info(); }
  void* do_reserve_range(std::size_t bytes) override { return device_.reserve_range(bytes); }
  void do_release_range(void* base, std::size_t bytes) override {
    device_.release_range(base, bytes);
  }
  void do_map(void* address, std::size_t bytes) override { device_.map(address, bytes); }
  void do_unmap(void* address, std::size_t bytes) override { device_.unmap(address, bytes); }
  void do_alias(void* to, void* from, std::size_t bytes) override {
    device_.alias(to, from, bytes);
  }
  void* do_allocate_async(std::size_t bytes, StreamHandle stream) override {
    return device_.allocate_async(bytes, stream);
  }
  void do_free_async(void* address, StreamHandle stream) override {
    device_.free_async(address, stream);
  }
  void do_trim_pool(std::size_t keep_bytes) override { device_.trim_pool(keep_bytes); }
  StreamHandle do_create_stream(const StreamOptions& options) override {
    return device_.create_stream(options);
  }
  void do_destroy_stream(StreamHandle stream) override { device_.destroy_stream(stream); }
  std::uint64_t do_stream_id(StreamHandle stream) override { return device_.stream_id(stream); }
  bool do_blocking(StreamHandle stream) override { return device_.blocking(stream); }
  CaptureStatus do_capture_status(StreamHandle stream) override {
    return device_.capture_status(stream);
  }
  bool do_query(StreamHandle stream) override { return device_.query(stream); }
  void do_synchronize(StreamHandle stream) override { device_.synchronize(stream); }
  void do_synchronize() override { device_.synchronize(); }
  EventHandle do_create_event(bool timed) override { return device_.create_event(timed); }
  void do_destroy_event(EventHandle event) override { device_.destroy_event(event); }
  void do_record(EventHandle event, StreamHandle stream) override { device_.record(event, stream); }
  void do_wait(StreamHandle stream, EventHandle event) override { device_.wait(stream, event); }
  bool do_query(EventHandle event) override { return device_.query(event); }
  void do_synchronize(EventHandle event) override { device_.synchronize(event); }
  Nanoseconds do_event_time(EventHandle event) override { return device_.event_time(event); }
  void do_learn_completions() override { device_.learn_completions(); }
  void do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
               StreamHandle stream) override {
    device_.copy(to, from, bytes, kind, stream);
  }
  void do_fill(void* address, unsigned char value, std::size_t bytes,
               StreamHandle stream) override {
    device_.fill(address, value, bytes, stream);
  }
  void do_launch(Operation operation, StreamHandle stream) override {
    device_.launch(std::move(operation), stream);
  }
  void do_callback(StreamHandle stream, std::function<void()> function, std::uint64_t) override {
    device_.callback(stream, std::move(function));
  }

 private:
  Device& device_;
};

}  // namespace millrace
