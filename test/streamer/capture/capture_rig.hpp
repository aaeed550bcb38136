#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "millrace/streamer/capture.hpp"
#include "millrace/streamer/memory_sink.hpp"
#include "test/support/leaving_out_device.hpp"
#include "test/support/model_bench.hpp"

namespace millrace::test {

/// Tables that train while their changes are captured.
struct CaptureCase {
  CaptureOptions options{};
  OptimizerKind optimizer = OptimizerKind::rowwise_adagrad;
  bool cached = false;
  bool update_on_main = true;  ///< else on a stream of its own
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
[[nodiscard]] CaptureCase draw_case(CaptureWay way, std::uint64_t seed);

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

class CaptureRig {
 public:
  explicit CaptureRig(const CaptureCase& what);
  ~CaptureRig();

  /// Trains all steps, as a loop does that prefetches one batch ahead; waits for nothing.
  void train();
  void step();
  /// Tells the rest. Whether that was all.
  [[nodiscard]] bool flush(Nanoseconds patience = Nanoseconds::max());
  /// What the rows that were told, applied to the first snapshot, have in common with the tables:
  /// "" if that is all. Ends the capture.
  [[nodiscard]] std::string compare();
  [[nodiscard]] std::vector<std::string> races() const;

 private:
  const CaptureCase what_;

 public:
  VirtualMachine machine;
  VirtualDevice& device;
  CheckingObserver checking;

 private:
  const bool attached_ = (checking.attach(device), checking.attach(machine.executor()), true);

 public:
  LeavingOutDevice program_device{device};
  OrderedDevice ordered{program_device};
  DeviceSource source{program_device};
  PinnedSource pinned_source{program_device};
  CachingAllocator caching{ordered, source, Policy::millrace()};
  CachingAllocator caching_pinned{ordered, pinned_source, Policy::pinned()};
  CheckedAllocator memory{caching, checking, device};
  CheckedAllocator pinned{caching_pinned, checking, device, CheckedMemory::pinned};
  Stream main, update, prefetch;
  ModelContext context{memory, main};
  std::unique_ptr<EmbeddingBags> bags;
  SinkReceiver receiver;
  std::unique_ptr<Capture> capture;

 private:
  struct Batch {
    KeyedJaggedTensor ids;
    BatchTensor gradient;
    HeldRows held{};
  };
  void upload_batches();
  void bring(std::size_t batch);
  void use_tables_on(Stream& stream);
  /// Of each table: weights, and state as it is told.
  struct Contents {
    std::vector<std::vector<float>> weights, state;
  };
  [[nodiscard]] Contents contents();

  ModelMemory uploads_{memory, main};
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
  Stream* tables_on_;
  Contents first_;
};

}  // namespace millrace::test
