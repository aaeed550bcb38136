#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "test/support/leaving_out_device.hpp"
#include "test/support/shadow_memory.hpp"

namespace millrace::test {

/// Leaves edges out, and gives every kernel data. A kernel fills the memory that it writes. It
/// checks that memory that it reads has the newest write that was enqueued earlier. Before a copy
/// to the device, the host writes new data; `on_host_write` reports that. Streams without a name
/// are left alone.
class TamperedDevice final : public LeavingOutDevice {
 public:
  using HostWrite = std::function<void(void* address, std::size_t bytes)>;

  using LeavingOutDevice::LeavingOutDevice;

  /// Makes every query return that the event is complete.
  void say_yes_to_queries() { says_yes_ = true; }
  void on_host_write(HostWrite watch) { host_write_ = std::move(watch); }

  /// Number of kernels that read wrong data, and the first of them.
  [[nodiscard]] std::size_t corrupted() const noexcept { return state_->corrupted; }
  [[nodiscard]] const std::string& first_corrupted() const noexcept { return state_->first; }
  [[nodiscard]] std::size_t checked() const noexcept { return state_->checked; }

 private:
  /// Findings of kernels, which may outlive this object in the device's queue.
  struct Findings {
    std::size_t checked = 0, corrupted = 0;
    std::string first;
  };

  void* do_allocate(std::size_t bytes) override;
  void do_map(void* address, std::size_t bytes) override;
  void* do_allocate_async(std::size_t bytes, StreamHandle stream) override;
  using LeavingOutDevice::do_query;
  bool do_query(EventHandle event) override { return device_.query(event) || says_yes_; }
  void do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
               StreamHandle stream) override;
  void do_fill(void* address, unsigned char value, std::size_t bytes, StreamHandle stream) override;
  void do_launch(Operation operation, StreamHandle stream) override;

  bool says_yes_ = false;
  HostWrite host_write_;
  ShadowMemory shadow_;
  std::shared_ptr<Findings> state_ = std::make_shared<Findings>();
};

}  // namespace millrace::test
