#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>

#include "millrace/pipeline/data/batch_source.hpp"
#include "millrace/pipeline/data/input_schema.hpp"

namespace millrace {

/** @brief The position of a batch in a source. It identifies the same batch in every process. */
struct BatchPosition {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;  ///< index within the epoch, from 0
  friend auto operator<=>(const BatchPosition&, const BatchPosition&) = default;
};

/** @brief A source failed and did not change its position: the same call may succeed later. */
class RetriableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** @brief The data is not in the expected format. The message names the source and the line. */
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/**
 * @brief The pinned memory for the batches of a source. Allocator and stream outlive the batches.
 */
struct PinnedStaging {
  Allocator& pinned;  ///< allocates pinned host memory
  Stream& copy;       ///< the stream on which the batches are copied to the device
};

/**
 * @brief A source with epochs that can seek, so that training can resume from a checkpoint.
 *
 * `next` returns the batch at `position()` and advances the position. At the end of the epoch it
 * returns std::nullopt until `seek` or `next_epoch` is called. The last batch of an epoch may be
 * smaller than the others. `next` throws RetriableError, DataError, out_of_memory or DeviceError;
 * the position is then unchanged.
 */
class EpochSource : public BatchSource {
 public:
  /** @brief The features of every batch of this source. */
  [[nodiscard]] virtual const InputSchema& schema() const = 0;
  /** @brief The position of the batch that the next call of `next` returns. */
  [[nodiscard]] virtual BatchPosition position() const = 0;
  /** @brief Moves to `position`, which may be after the end of its epoch. */
  void seek(BatchPosition position) {
    do_seek(position);
    resume();
  }
  /** @brief Moves to the first batch of the next epoch. */
  void next_epoch() { seek({position().epoch + 1, 0}); }

 private:
  virtual void do_seek(BatchPosition position) = 0;
};

}  // namespace millrace
