#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "millrace/streamer/memory_sink.hpp"

namespace millrace::test {

/// Passes every call on to a sink that a test keeps, and first calls `before` with its name: it may
/// throw. Clock and faults are so the test's own.
class FaultySink final : public Sink {
 public:
  using Before = std::function<void(const std::string& call)>;

  FaultySink(std::shared_ptr<Sink> sink, Before before)
      : sink_(std::move(sink)), before_(std::move(before)) {}

  [[nodiscard]] std::string name() const override { return "faulty " + sink_->name(); }
  [[nodiscard]] SinkState state() override {
    before_("state");
    return sink_->state();
  }
  void begin(const StreamSchema& schema) override {
    before_("begin");
    sink_->begin(schema);
  }
  void write(const StepBatch& batch, std::string_view position) override {
    before_("write");
    sink_->write(batch, position);
    before_("written");
  }
  void flush() override {
    before_("flush");
    sink_->flush();
  }
  void read(const std::function<void(const RowRecord&)>& visit) override {
    before_("read");
    sink_->read(visit);
  }
  [[nodiscard]] bool take_snapshot_request() override {
    try {
      before_("take_snapshot_request");
    } catch (const SnapshotRequest&) {
      return true;
    }
    return false;
  }

  /// Thrown by `before`: there is one.
  struct SnapshotRequest {};

 private:
  const std::shared_ptr<Sink> sink_;
  const Before before_;
};

}  // namespace millrace::test
