#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "test/support/leaving_out_device.hpp"
#include "test/support/model_bench.hpp"

namespace millrace::test {

/// Where a loop trains.
enum class TrainsOn {
  main,      ///< all of it
  update,    ///< updates are on a stream of their own
  off_main,  ///< all of it is on that stream, which has not waited for main since the tables were
             ///< made; main does other work, and frees that work's memory
};
inline constexpr std::array kTrainsOn{TrainsOn::main, TrainsOn::update, TrainsOn::off_main};
[[nodiscard]] const char* to_string(TrainsOn where) noexcept;

struct TrainingCase {
  OptimizerKind optimizer = OptimizerKind::rowwise_adagrad;
  bool cached = false;
  TrainsOn on = TrainsOn::main;
  std::uint64_t schedule = 0;  ///< 0: timed, else the seed of an adversarial one
  std::uint64_t data = 1;      ///< seed of batches and gradients
  std::size_t steps = 8;
  std::size_t tables = 4;
};

/// Of each table: weights, and state as it is told.
struct TableContents {
  std::vector<std::vector<float>> weights, state;
};

/// Tables that train, on a device whose accesses are checked.
class TrainingRig {
 public:
  /// Tables are numbered in the schema from here on.
  static constexpr std::uint32_t kFirstTable = 3;
  using RowName = std::pair<std::uint32_t, std::int64_t>;  ///< table, row: as told

  explicit TrainingRig(const TrainingCase& what);
  ~TrainingRig();

  /// Trains all steps, as a loop does that prefetches one batch ahead; waits for nothing.
  void train();
  void step();
  /// Rows that a step, from 1, changes.
  [[nodiscard]] const std::set<RowName>& changed(std::size_t step) const {
    return batches_[step - 1].rows;
  }
  /// Orders a stream behind all use of the tables so far, and later use behind what is on it.
  void use_tables_on(Stream& stream);
  [[nodiscard]] Stream& tables_on() const { return *tables_on_; }
  [[nodiscard]] bool has(const RowName& name) const;
  /// What is there behind all steps so far.
  [[nodiscard]] TableContents contents();
  [[nodiscard]] std::vector<std::uint32_t> table_numbers() const;
  /// Main takes memory, so many blocks of each size, writes, and frees it.
  void churn_main(std::size_t of_each = 1);
  /// From the first race on nothing is computed: what is found behind it need be no number.
  void compute_until_a_race();
  [[nodiscard]] std::vector<std::string> races() const;

 private:
  const TrainingCase what_;

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

 private:
  struct Batch {
    KeyedJaggedTensor ids;
    BatchTensor gradient;
    std::set<RowName> rows;
    HeldRows held{};
  };
  void upload_batches();
  [[nodiscard]] std::set<RowName> rows_of(const HostBags& batch) const;
  void bring(std::size_t batch);

  ModelMemory uploads_{memory, main};
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
  Stream* tables_on_;
};

}  // namespace millrace::test
