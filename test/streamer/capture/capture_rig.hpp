#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "millrace/streamer/memory_sink.hpp"
#include "millrace/streamer/row_capture.hpp"
#include "test/streamer/capture/training_rig.hpp"

namespace millrace::test {

/// Tables that train while their changes are captured.
struct CaptureCase {
  CaptureOptions options{};
  OptimizerKind optimizer = OptimizerKind::rowwise_adagrad;
  bool cached = false;
  TrainsOn on = TrainsOn::main;
  std::uint64_t schedule = 0;  ///< 0: timed; otherwise the seed of an adversarial schedule
  std::uint64_t data = 1;      ///< seed of batches and gradients
  std::size_t steps = 8;
  std::size_t tables = 4;
  std::string left_out{};       ///< an edge; empty: none
  unsigned refuse_every = 0;    ///< the receiver refuses about one call in n; 0: none
  Nanoseconds receive_time{0};  ///< per call of the receiver

  [[nodiscard]] std::string name() const;
};

/// A case drawn from a seed. Slots may be too few or too small.
[[nodiscard]] CaptureCase draw_case(CaptureMode mode, std::uint64_t seed);

/// Writes the rows that it receives into a MemorySink, which keeps the newest version of each row.
class SinkReceiver final : public CaptureReceiver {
 public:
  SinkReceiver(const CaptureCase& what, Executor& executor, CheckingObserver& checking)
      : what_(what), executor_(executor), checking_(checking) {}

  [[nodiscard]] bool captured(const CapturedRows& rows) override;

  MemorySink sink;
  std::vector<std::uint64_t> steps;  ///< in the order of delivery
  std::uint64_t calls = 0, rows = 0, missing = 0, modeled = 0;

 private:
  const CaptureCase& what_;
  Executor& executor_;
  CheckingObserver& checking_;
  Version last_;
  std::mt19937_64 random_{what_.data};
};

class CaptureRig : public TrainingRig {
 public:
  explicit CaptureRig(const CaptureCase& what);
  ~CaptureRig();

  /// Delivers the remaining rows. Returns false if rows are still dirty.
  [[nodiscard]] bool flush(Nanoseconds patience = Nanoseconds::max());
  /// Applies the delivered rows to the first contents of the tables. Returns how the result differs
  /// from the tables, "" if it does not. Ends the capture.
  [[nodiscard]] std::string compare();

 private:
  const CaptureCase what_;

 public:
  SinkReceiver receiver;
  std::unique_ptr<RowCapture> capture;

 private:
  TableContents first_;
};

}  // namespace millrace::test
