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

/// The stream on which a loop trains.
enum class TrainsOn {
  main,      ///< everything runs on main
  update,    ///< updates run on their own stream
  off_main,  ///< everything runs on the update stream, which has not waited for main since the
             ///< tables were made; main does other work and frees its memory
};
inline constexpr std::array kTrainsOn{TrainsOn::main, TrainsOn::update, TrainsOn::off_main};
[[nodiscard]] const char* to_string(TrainsOn where) noexcept;

struct TrainingCase {
  OptimizerKind optimizer = OptimizerKind::rowwise_adagrad;
  bool cached = false;
  TrainsOn on = TrainsOn::main;
  std::uint64_t schedule = 0;  ///< 0: timed; otherwise the seed of an adversarial schedule
  std::uint64_t data = 1;      ///< seed of batches and gradients
  std::size_t steps = 8;
  std::size_t tables = 4;
};

/// The weights and the state of each table; the state in the layout of delivered rows.
struct TableContents {
  std::vector<std::vector<float>> weights, state;
};

/// Trains tables on a device. A checker observes all accesses.
class TrainingRig {
 public:
  /// The number of the first table in the schema.
  static constexpr std::uint32_t kFirstTable = 3;
  using RowName = std::pair<std::uint32_t, std::int64_t>;  ///< table and row, as delivered

  explicit TrainingRig(const TrainingCase& what);
  ~TrainingRig();

  /// Trains all steps like a loop that prefetches one batch ahead. Waits for nothing.
  void train();
  void step();
  /// The rows that a step changes. The first step is 1.
  [[nodiscard]] const std::set<RowName>& changed(std::size_t step) const {
    return batches_[step - 1].rows;
  }
  /// Orders `stream` after all previous use of the tables, and later use after the work on
  /// `stream`.
  void use_tables_on(Stream& stream);
  [[nodiscard]] Stream& tables_on() const { return *tables_on_; }
  [[nodiscard]] bool has(const RowName& name) const;
  /// The tables' contents after all steps so far.
  [[nodiscard]] TableContents contents();
  [[nodiscard]] std::vector<std::uint32_t> table_numbers() const;
  /// Main allocates `of_each` blocks of each size, writes them and frees them.
  void churn_main(std::size_t of_each = 1);
  /// Stops computing at the first race, because values after a race can be garbage.
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
