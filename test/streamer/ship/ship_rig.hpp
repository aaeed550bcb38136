#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/streamer/shipper.hpp"
#include "test/streamer/ship/faulty_sink.hpp"
#include "test/support/catch.hpp"
#include "test/support/host_memory/failing_host_memory.hpp"

namespace millrace::test {

inline constexpr std::uint64_t kShipRows = 64;
inline constexpr std::uint64_t kShipEpoch = 7;

/// A table with one number per row, and the rows that it has to send.
class ShippedTable final : public Recapture {
 public:
  [[nodiscard]] std::uint64_t recapture(const StepBatch& rows) override {
    const std::lock_guard lock{mutex_};
    for (std::size_t i = 0; i < rows.size(); ++i) dirty_.insert(rows.row(i).row);
    return ++ticket_;
  }
  [[nodiscard]] std::uint64_t recapture_all() override {
    const FailingHostMemory::Paused paused;  // RowStreamer allocates nothing here
    const std::lock_guard lock{mutex_};
    for (std::uint64_t row = 0; row < kShipRows; ++row)
      dirty_.insert(static_cast<std::int64_t>(row));
    ++snapshots_;
    return ++ticket_;
  }
  [[nodiscard]] std::uint64_t all_rows() const override { return kShipRows; }

  /// A step that changes some rows and sends at most `most` rows.
  Shipment step(const std::set<std::int64_t>& changed, Nanoseconds now,
                std::size_t most = kShipRows) {
    const std::lock_guard lock{mutex_};
    ++step_;
    for (const std::int64_t row : changed) {
      table_[row] = static_cast<float>(step_ * 1000) + static_cast<float>(row);
      dirty_.insert(row);
    }
    Shipment shipment{.recaptures = ticket_, .captured = now};
    shipment.batch.commit = {.version = {kShipEpoch, step_}, .step = step_};
    while (!dirty_.empty() && shipment.batch.size() < most) {
      const std::int64_t row = *dirty_.begin();
      shipment.batch.add(
          {.version = {kShipEpoch, step_}, .row = row, .weights = {&table_[row], 1}});
      dirty_.erase(dirty_.begin());
    }
    shipment.batch.commit.missing = dirty_.size();
    return shipment;
  }
  [[nodiscard]] std::map<std::int64_t, float> table() const {
    const std::lock_guard lock{mutex_};
    return table_;
  }
  [[nodiscard]] std::size_t snapshots() const {
    const std::lock_guard lock{mutex_};
    return snapshots_;
  }
  [[nodiscard]] std::set<std::int64_t> dirty() const {
    const std::lock_guard lock{mutex_};
    return dirty_;
  }
  void resume_at(std::uint64_t step) { step_ = step; }

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, float> table_ = [] {
    std::map<std::int64_t, float> rows;
    for (std::uint64_t row = 0; row < kShipRows; ++row) rows[static_cast<std::int64_t>(row)] = 0;
    return rows;
  }();
  std::set<std::int64_t> dirty_;
  std::uint64_t ticket_ = 0, step_ = 0;
  std::size_t snapshots_ = 0;
};

inline std::map<std::int64_t, float> ship_rows_of(Sink& sink) {
  std::map<std::int64_t, float> rows;
  sink.read([&](const RowRecord& row) { rows[row.row] = row.weights[0]; });
  return rows;
}

inline StreamBeginning ship_beginning(Lineage lineage = {}) {
  return {.schema = {RowContent::weights, {{"table.a", kShipRows, 1, 0}}},
          .epoch = kShipEpoch,
          .lineage = std::move(lineage)};
}

inline StepBatch ship_batch(Version version, Version after, std::int64_t row, float value) {
  StepBatch made;
  made.commit = {.version = version, .after = after, .step = version.step};
  made.add({.version = version, .row = row, .weights = {&value, 1}});
  return made;
}

/// A machine with its own clock, a memory sink with faults, and a shipper for that sink.
struct ShipRig {
  explicit ShipRig(FaultySink::Before before = {}, ShippingOptions options = {},
                   Lineage lineage = {},
                   std::shared_ptr<MemorySink> kept = std::make_shared<MemorySink>())
      : memory(std::move(kept)),
        sink(std::make_shared<FaultySink>(
            memory, before ? before : [](const std::string&) {})),
        shipper(sink, machine.executor(), trainer, ship_beginning(std::move(lineage)), options) {}

  void step(const std::set<std::int64_t>& changed) {
    shipper.offer(trainer.step(changed, machine.now()), machine.executor());
  }
  /// Trains without changes until no row is missing.
  bool settle() {
    for (int i = 0; i < 8; ++i) {
      if (!shipper.drain(std::chrono::hours{1})) return false;
      if (shipper.report().missing == 0 && trainer.dirty().empty()) return true;
      step({});
    }
    return false;
  }

  VirtualMachine machine;
  ShippedTable trainer;
  std::shared_ptr<MemorySink> memory;
  std::shared_ptr<FaultySink> sink;
  Shipper shipper;
};

}  // namespace millrace::test
