#pragma once

#include <optional>

#include "millrace/pipeline/data/model_input.hpp"

namespace millrace {

/**
 * @brief Where batches come from, in order, until an end. One thread at a time.
 *
 * A pipeline asks for batches well ahead of training on them, and may ask again after the end.
 */
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /**
   * @brief The next batch, in pinned memory; nothing at the end, and from then on.
   *
   * What it throws is not the end: the next call may succeed.
   */
  [[nodiscard]] std::optional<ModelInput> next() {
    if (ended_) return std::nullopt;
    std::optional<ModelInput> batch = do_next();
    ended_ = !batch.has_value();
    return batch;
  }

 protected:
  BatchSource() = default;
  BatchSource(const BatchSource&) = default;
  BatchSource& operator=(const BatchSource&) = default;

  /** @brief There are batches again: for a source that has gone back to its beginning. */
  void resume() noexcept { ended_ = false; }

 private:
  /** @brief As `next`, but never called again once it has said that there is no more. */
  virtual std::optional<ModelInput> do_next() = 0;

  bool ended_ = false;
};

}  // namespace millrace
