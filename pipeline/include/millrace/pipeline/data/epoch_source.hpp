#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>

#include "millrace/pipeline/data/batch_source.hpp"
#include "millrace/pipeline/data/input_schema.hpp"

namespace millrace {

/** @brief The next batch of a source: the same position gives the same batch, in any process. */
struct BatchPosition {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;  ///< of the epoch, from 0
  friend auto operator<=>(const BatchPosition&, const BatchPosition&) = default;
};

/** @brief A source failed, and nothing has changed: the same call may succeed later. */
class RetriableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** @brief The data are not what they should be. The message names the source and the line. */
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** @brief Where a source puts its batches. Both outlive the batches. */
struct PinnedStaging {
  Allocator& pinned;  ///< of pinned host memory
  Stream& copy;       ///< whose copies read the batches
};

/**
 * @brief A source of epochs that can go to any position: what a checkpoint needs.
 *
 * `next` gives the batch at `position()`, which moves on; nothing at the end of the epoch, until
 * `seek` or `next_epoch`. The last batch of an epoch may be smaller than the others. It throws
 * RetriableError, DataError, out_of_memory or DeviceError; the position is then unchanged.
 */
class EpochSource : public BatchSource {
 public:
  [[nodiscard]] virtual const InputSchema& schema() const = 0;
  [[nodiscard]] virtual BatchPosition position() const = 0;
  /** @brief Goes to any position, past the end of an epoch too. */
  void seek(BatchPosition position) {
    do_seek(position);
    resume();
  }
  /** @brief Begins the next epoch. */
  void next_epoch() { seek({position().epoch + 1, 0}); }

 private:
  virtual void do_seek(BatchPosition position) = 0;
};

}  // namespace millrace
