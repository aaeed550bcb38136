#pragma once

#include <cstddef>
#include <memory>

#include "millrace/device/executor.hpp"
#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

struct LoadingOptions {
  std::size_t depth = 2;           ///< batches that wait to be taken, at most
  unsigned attempts = 3;           ///< how often a batch is asked for while that fails retriably
  Nanoseconds pause{100'000'000};  ///< between attempts
  bool check_ids = true;           ///< every id against the source's schema
};

/**
 * @brief Loads batches ahead on an actor of its own; a source like the one that it loads from.
 *
 * Batches, the end of the epoch and exceptions come in the order in which the source gave them. A
 * RetriableError comes only after the last attempt; an id that is no row of its table, as
 * `check_ids` throws it, with a batch that is passed over. After an exception the loader rests; the
 * next call of `next` asks the source again, so that the caller may go on, or `seek` past what
 * fails. At the end of an epoch it rests until `seek`, which waits for the batch that is being
 * loaded and drops what was loaded ahead.
 * All calls from one thread; the source is the loader's until it ends.
 */
class LoadingThread final : public EpochSource {
 public:
  /**
   * @brief Begins to load at once. Executor and source outlive it.
   * @throws std::invalid_argument if depth or attempts are 0
   */
  LoadingThread(Executor& executor, EpochSource& source, const LoadingOptions& options = {});
  /** @brief Waits for the batch that is being loaded, and drops what was not taken. */
  ~LoadingThread() override;

  [[nodiscard]] const InputSchema& schema() const override;
  /** @brief Of the batch that `next` will give, not of those loaded ahead. */
  [[nodiscard]] BatchPosition position() const override;

 private:
  [[nodiscard]] std::optional<ModelInput> do_next() override;
  void do_seek(BatchPosition position) override;

  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace millrace
