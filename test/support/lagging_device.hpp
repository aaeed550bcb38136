#pragma once

#include <cstdint>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "test/support/forwarding_device.hpp"

namespace millrace::test {

/// Streams and events that cost nothing. An event is complete when `behind` later ones have been
/// recorded. Callbacks run at once. Nothing else runs.
class LaggingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  /// Number of latest records that are not complete.
  std::uint64_t behind = 0;
  static constexpr std::uint64_t kStuck = std::numeric_limits<std::uint64_t>::max() / 2;

 private:
  StreamHandle do_create_stream(const StreamOptions& options) override {
    const StreamHandle stream{reinterpret_cast<void*>(++streams_ << 4)};
    if (options.blocking) blocking_.insert(stream.value);
    return stream;
  }
  void do_destroy_stream(StreamHandle stream) override { blocking_.erase(stream.value); }
  std::uint64_t do_stream_id(StreamHandle stream) override {
    return reinterpret_cast<std::uint64_t>(stream.value);
  }
  bool do_blocking(StreamHandle stream) override { return blocking_.contains(stream.value); }
  void do_synchronize(StreamHandle) override {}
  void do_synchronize() override {}
  EventHandle do_create_event(bool) override {
    records_.push_back(0);
    return {reinterpret_cast<void*>(records_.size())};
  }
  void do_destroy_event(EventHandle) override {}
  void do_record(EventHandle event, StreamHandle) override { at(event) = ++recorded_; }
  void do_wait(StreamHandle, EventHandle) override {}
  bool do_query(EventHandle event) override { return at(event) + behind <= recorded_; }
  void do_synchronize(EventHandle) override {}
  void do_callback(StreamHandle, std::function<void()> function, std::uint64_t) override {
    function();
  }

  std::uint64_t& at(EventHandle event) {
    return records_[reinterpret_cast<std::uint64_t>(event.value) - 1];
  }

  std::uint64_t streams_ = 0;
  std::uint64_t recorded_ = 0;
  std::vector<std::uint64_t> records_;  // record number of each event
  std::unordered_set<void*> blocking_;
};

}  // namespace millrace::test
