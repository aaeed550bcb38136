#pragma once

#include <cstddef>
#include <memory>

#include "millrace/device/executor.hpp"
#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

/** @brief How far a LoadingThread loads ahead, and how it retries. */
struct LoadingOptions {
  std::size_t depth = 2;           ///< maximum number of loaded batches not yet taken
  unsigned attempts = 3;           ///< attempts per batch while the source throws RetriableError
  Nanoseconds pause{100'000'000};  ///< pause between attempts
  bool check_ids = true;           ///< check every id against the source's schema
};

/**
 * @brief Loads batches from another source ahead of time, on its own thread (an executor's actor).
 *
 * `next` returns batches, the end of the epoch and exceptions in the order of the source.
 * - A RetriableError is thrown only after the last attempt.
 * - A batch with an invalid id is skipped, and `next` throws InvalidIdError instead.
 * - After an exception the loader pauses. The next call of `next` asks the source again; the caller
 *   can continue that way, or `seek` past the position that fails.
 * - At the end of an epoch the loader pauses until `seek`. `seek` waits for the batch that is being
 *   loaded, and drops all batches loaded ahead.
 *
 * All calls come from one thread. Nothing else may use the source while the loader exists.
 */
class LoadingThread final : public EpochSource {
 public:
  /**
   * @brief Starts to load immediately.
   * @param executor  runs the loader's actor; outlives the loader
   * @param source    outlives the loader
   * @throws std::invalid_argument if `options.depth` or `options.attempts` is 0
   */
  LoadingThread(Executor& executor, EpochSource& source, const LoadingOptions& options = {});
  /** @brief Waits for the batch that is being loaded, and drops all batches not taken. */
  ~LoadingThread() override;

  [[nodiscard]] const InputSchema& schema() const override;
  /** @brief Position of the batch that `next` returns next, not of the batches loaded ahead. */
  [[nodiscard]] BatchPosition position() const override;

 private:
  [[nodiscard]] std::optional<ModelInput> do_next() override;
  void do_seek(BatchPosition position) override;

  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace millrace
