#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "millrace/streamer/memory_sink.hpp"

namespace millrace::test {

/// Forwards every call to a sink that the test keeps. It first calls `before` with the call's name,
/// and `before` may throw. So the test controls clock and faults.
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
    if (rows_ != nullptr) *rows_ = batch.size();
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
  [[nodiscard]] std::uint64_t snapshot_request() override {
    before_("snapshot_request");
    return requested_;
  }
  void audit(std::uint32_t rank, std::uint64_t epoch) override {
    before_("audit");
    sink_->audit(rank, epoch);
  }
  [[nodiscard]] bool list_rows(
      const std::function<void(std::uint32_t table, std::int64_t row)>& visit) override {
    before_("list_rows");
    return sink_->list_rows(visit);
  }
  /// Sets `*rows` to the number of rows of each batch before the batch is written.
  void watch_rows(std::size_t* rows) { rows_ = rows; }
  void request_snapshot() { ++requested_; }
  void request_snapshot(std::uint64_t number) { requested_ = number; }

 private:
  const std::shared_ptr<Sink> sink_;
  const Before before_;
  std::atomic<std::uint64_t> requested_ = 0;
  std::size_t* rows_ = nullptr;
};

}  // namespace millrace::test
