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
  std::uint64_t schedule = 0;  ///< 0: timed, else the seed of an adversarial one
  std::uint64_t data = 1;      ///< seed of batches and gradients
  std::size_t steps = 8;
  std::size_t tables = 4;
  std::string left_out{};       ///< an edge
  unsigned refuse_every = 0;    ///< about, of the receiver; 0: it takes all
  Nanoseconds receive_time{0};  ///< it takes

  [[nodiscard]] std::string name() const;
};

/// Any of them, drawn from a seed: with slots that are too few or too small as well.
[[nodiscard]] CaptureCase draw_case(CaptureMode mode, std::uint64_t seed);

/// A MemorySink behind the receiver; newest versions.
class SinkReceiver final : public CaptureReceiver {
 public:
  SinkReceiver(const CaptureCase& what, Executor& executor, CheckingObserver& checking)
      : what_(what), executor_(executor), checking_(checking) {}

  [[nodiscard]] bool captured(const CapturedRows& rows) override;

  MemorySink sink;
  std::vector<std::uint64_t> steps;  ///< as told
  std::uint64_t calls = 0, rows = 0, missing = 0, modelled = 0;

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

  /// Tells the rest. Whether that was all.
  [[nodiscard]] bool flush(Nanoseconds patience = Nanoseconds::max());
  /// What the rows that were told, applied to the first snapshot, have in common with the tables:
  /// "" if that is all. Ends the capture.
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
