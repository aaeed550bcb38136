#pragma once

#include <optional>

#include "millrace/pipeline/data/model_input.hpp"

namespace millrace {

/**
 * @brief A sequence of batches. Not thread-safe: one thread calls it at a time.
 *
 * A pipeline draws batches several steps before it trains on them, and may call `next` again after
 * the end.
 */
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /**
   * @brief Returns the next batch, in pinned memory.
   * @return std::nullopt at the end of the sequence, and in every later call
   * @throws exceptions of the implementation. These do not end the sequence: the next call may
   * succeed.
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

  /** @brief Ends the state "at the end", for a source that has moved to another position. */
  void resume() noexcept { ended_ = false; }

 private:
  /** @brief Implements `next`. After it returned std::nullopt it is called only after `resume`. */
  virtual std::optional<ModelInput> do_next() = 0;

  bool ended_ = false;
};

}  // namespace millrace
