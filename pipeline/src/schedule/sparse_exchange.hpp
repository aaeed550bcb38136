#pragma once

#include <array>

#include "millrace/pipeline/data/host_batch.hpp"
#include "schedule/loop_work.hpp"

namespace millrace {

/** @brief The sparse features of one batch: values and lengths, and of the weighted also weights.
 */
struct SparseFeatures {
  static constexpr std::size_t kTensors = 5;
  std::array<Buffer, kTensors> tensors;

  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::vector<View> views(Access access) const;
  void record_use(StreamRef user);
  void reset();
};

/** @brief A batch in the loop: on the device, and what became of its sparse features so far. */
struct BatchInFlight {
  BatchSizes sizes;
  DeviceBatch batch;
  SparseFeatures permuted, received, arranged;
  Buffer exchange_sizes;
  HostBatch host_sizes;
  Event sizes_known;
  Event ready;
};

/**
 * @brief How sparse features get from the ranks that read them to the ranks whose tables they look
 *        up, all on one stream: start, wait, arrange.
 *
 * The time of an all-to-all is declared from the workload's link; what it allocates is allocated.
 */
class SparseExchange {
 public:
  SparseExchange(LoopWork& work, const Workload& workload, Stream& stream, Waits waits);

  /** @brief Waits for the copy; permutes; exchanges sizes, which come back to the host. */
  void start(BatchInFlight& flight);
  /** @brief The host waits for the sizes, if `block`; then the data is exchanged. */
  void exchange(BatchInFlight& flight, bool block = true);
  /** @brief Puts what was received into the order of the tables. */
  void arrange(BatchInFlight& flight);

 private:
  [[nodiscard]] SparseFeatures allocate(const BatchSizes& sizes);
  [[nodiscard]] Cost link(std::size_t bytes) const;

  LoopWork& work_;
  const Workload& workload_;
  Stream& stream_;
  Waits waits_;
  Tag tag_;
};

}  // namespace millrace
