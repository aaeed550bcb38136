#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "test/support/forwarding_device.hpp"

namespace millrace::test {

/// A virtual device under a program that knows nothing of it: leaves out what orders its work.
/// Streams without a name are left alone.
class LeavingOutDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  /// As "main waits for copy", by the names of streams; "host waits for copy" is a synchronization.
  void leave_out(std::string edge) { left_out_ = std::move(edge); }
  /// Waits are left out while this says so.
  void leave_out_waits_if(std::function<bool()> condition) { drops_wait_ = std::move(condition); }
  /// Of each wait and synchronization, by its edge: left out if this says so. In place of others.
  void leave_out_if(std::function<bool(const std::string& edge)> condition) {
    drops_edge_ = std::move(condition);
  }
  /// Kernels compute while this says so: of what is no number any more some would crash.
  void compute_while(std::function<bool()> condition) { computes_ = std::move(condition); }
  /// Only that wait of a stream, of all that are made; they count from 1.
  void leave_out_wait(std::size_t number) { wait_left_out_ = number; }
  /// Waits of streams so far, as edges, in order.
  [[nodiscard]] const std::vector<std::string>& waits() const noexcept { return waits_; }
  /// Every edge that the program made or that was left out, and how often.
  [[nodiscard]] const std::map<std::string, std::size_t>& edges() const noexcept { return edges_; }

 protected:
  [[nodiscard]] std::string stream_name(StreamHandle stream) const;

  StreamHandle do_create_stream(const StreamOptions& options) override;
  void do_record(EventHandle event, StreamHandle stream) override;
  void do_wait(StreamHandle stream, EventHandle event) override;
  using ForwardingDevice::do_synchronize;
  void do_synchronize(StreamHandle stream) override;
  void do_synchronize(EventHandle event) override;
  void do_launch(Operation operation, StreamHandle stream) override;

 private:
  [[nodiscard]] bool leaves_out(const std::string& waiter, const std::string& other);

  std::string left_out_;
  std::function<bool()> drops_wait_ = [] { return false; };
  std::function<bool(const std::string&)> drops_edge_ = [](const std::string&) { return false; };
  std::function<bool()> computes_;
  std::map<void*, std::string> streams_, events_;
  std::map<std::string, std::size_t> edges_;
  std::vector<std::string> waits_;
  std::size_t wait_left_out_ = 0;
};

}  // namespace millrace::test
