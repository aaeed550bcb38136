#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "millrace/device/virtual_device.hpp"
#include "test/support/shadow_memory.hpp"

namespace millrace::test {

/// A virtual device under a program that knows nothing of it: leaves edges out, and gives every
/// kernel data. Kernels fill what they write and check that what they read is what the program
/// meant: the newest write that was enqueued before. Copies to the device bring data that the host
/// has written just before; whoever watches the host's writes is told. Streams without a name are
/// left alone.
class TamperedDevice final : public Device {
 public:
  using HostWrite = std::function<void(void* address, std::size_t bytes)>;

  explicit TamperedDevice(VirtualDevice& device) : device_(device) {}

  /// As "main waits for copy", by the names of streams; "host waits for copy" is a synchronisation.
  void leave_out(std::string edge) { left_out_ = std::move(edge); }
  /// Waits are left out while this says so.
  void leave_out_waits_if(std::function<bool()> condition) { drops_wait_ = std::move(condition); }
  /// Every event is said to be complete.
  void say_yes_to_queries() { says_yes_ = true; }
  void on_host_write(HostWrite watch) { host_write_ = std::move(watch); }

  /// Every edge that the program made or that was left out, and how often.
  [[nodiscard]] const std::map<std::string, std::size_t>& edges() const noexcept { return edges_; }
  /// Kernels that read something else than was meant, and the first of them.
  [[nodiscard]] std::size_t corrupted() const noexcept { return state_->corrupted; }
  [[nodiscard]] const std::string& first_corrupted() const noexcept { return state_->first; }
  [[nodiscard]] std::size_t checked() const noexcept { return state_->checked; }

  std::string name() const override { return device_.name(); }
  bool modelled() const override { return true; }
  bool has_driver_pool() const override { return true; }
  DriverPoolInfo pool_info() override { return device_.pool_info(); }
  StreamHandle per_thread_stream() override { return device_.per_thread_stream(); }

 private:
  /// What kernels find; they may outlive this object in the device's queue.
  struct Findings {
    std::size_t checked = 0, corrupted = 0;
    std::string first;
  };

  [[nodiscard]] bool leaves_out(const std::string& waiter, const std::string& other);
  [[nodiscard]] std::string stream_name(StreamHandle stream) const;

  void* do_allocate(std::size_t bytes) override;
  void do_free(void* address) override { device_.free(address); }
  void* do_allocate_host(std::size_t bytes) override { return device_.allocate_host(bytes); }
  void do_free_host(void* address) override { device_.free_host(address); }
  MemoryInfo do_memory_info() override { return device_.memory_info(); }
  void* do_allocate_async(std::size_t bytes, StreamHandle stream) override;
  void do_free_async(void* address, StreamHandle stream) override {
    device_.free_async(address, stream);
  }
  void do_trim_pool(std::size_t keep_bytes) override { device_.trim_pool(keep_bytes); }
  StreamHandle do_create_stream(const StreamOptions& options) override;
  void do_destroy_stream(StreamHandle stream) override { device_.destroy_stream(stream); }
  std::uint64_t do_stream_id(StreamHandle stream) override { return device_.stream_id(stream); }
  bool do_blocking(StreamHandle stream) override { return device_.blocking(stream); }
  bool do_capturing(StreamHandle stream) override { return device_.capturing(stream); }
  bool do_query(StreamHandle stream) override { return device_.query(stream); }
  void do_synchronize(StreamHandle stream) override;
  void do_synchronize() override { device_.synchronize(); }
  EventHandle do_create_event(bool timed) override { return device_.create_event(timed); }
  void do_destroy_event(EventHandle event) override { device_.destroy_event(event); }
  void do_record(EventHandle event, StreamHandle stream) override;
  void do_wait(StreamHandle stream, EventHandle event) override;
  bool do_query(EventHandle event) override { return device_.query(event) || says_yes_; }
  void do_synchronize(EventHandle event) override;
  Nanoseconds do_event_time(EventHandle event) override { return device_.event_time(event); }
  void do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
               StreamHandle stream) override;
  void do_fill(void* address, unsigned char value, std::size_t bytes, StreamHandle stream) override;
  void do_launch(Operation operation, StreamHandle stream) override;
  void do_callback(StreamHandle stream, std::function<void()> function, std::uint64_t) override {
    device_.callback(stream, std::move(function));
  }

  VirtualDevice& device_;
  std::string left_out_;
  std::function<bool()> drops_wait_ = [] { return false; };
  bool says_yes_ = false;
  HostWrite host_write_;
  std::map<void*, std::string> streams_, events_;
  std::map<std::string, std::size_t> edges_;
  ShadowMemory shadow_;
  std::shared_ptr<Findings> state_ = std::make_shared<Findings>();
};

}  // namespace millrace::test
