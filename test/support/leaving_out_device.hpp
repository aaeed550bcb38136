#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "test/support/forwarding_device.hpp"

namespace millrace::test {

/// A virtual device that leaves out edges that order the work of a program. The program does not
/// know of it. Streams without a name are left alone.
class LeavingOutDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  /// Leaves out an edge such as "main waits for copy", by the names of streams. "host waits for
  /// copy" is a synchronization.
  void leave_out(std::string edge) { left_out_ = std::move(edge); }
  /// Leaves out waits while the condition returns true.
  void leave_out_waits_if(std::function<bool()> condition) { drops_wait_ = std::move(condition); }
  /// Leaves out each wait and synchronization whose edge meets the condition. Replaces an earlier
  /// condition.
  void leave_out_if(std::function<bool(const std::string& edge)> condition) {
    drops_edge_ = std::move(condition);
  }
  /// Kernels compute only while the condition returns true. Some would crash on values that are no
  /// numbers.
  void compute_while(std::function<bool()> condition) { computes_ = std::move(condition); }
  /// Leaves out only the wait with this number, counted from 1 over all streams.
  void leave_out_wait(std::size_t number) { wait_left_out_ = number; }
  /// Returns the waits of streams so far, as edges, in order.
  [[nodiscard]] const std::vector<std::string>& waits() const noexcept { return waits_; }
  /// Returns how often each edge was made or left out.
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
