#pragma once

#include <cstddef>
#include <memory>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

/** @brief Which of the examples of a batch of all ranks one rank has. */
struct BatchShare {
  unsigned rank = 0, ranks = 1;

  /** @brief Of so many, the ones from here to before that of the next rank: shares differ by one
   *         example at most, and may be empty. */
  [[nodiscard]] std::size_t begin(std::size_t examples) const noexcept {
    return examples * rank / ranks;
  }
  [[nodiscard]] std::size_t end(std::size_t examples) const noexcept {
    return examples * (rank + 1) / ranks;
  }
};

/**
 * @brief One rank's share of every batch of a source.
 *
 * All ranks together have the batches of the source, in its order, and each as many of them as the
 * source has; its last one, if that is short, may leave some ranks without examples. Positions
 * count the source's batches. Every rank reads all of the source, and stages its own examples.
 */
class ShareSource final : public EpochSource {
 public:
  /** @throws std::invalid_argument if there is no such rank */
  ShareSource(std::unique_ptr<EpochSource> source, BatchShare share, const PinnedStaging& staging);

  [[nodiscard]] const InputSchema& schema() const override { return source_->schema(); }
  [[nodiscard]] BatchPosition position() const override { return source_->position(); }

 private:
  [[nodiscard]] std::optional<ModelInput> do_next() override;
  void do_seek(BatchPosition position) override { source_->seek(position); }

  const std::unique_ptr<EpochSource> source_;
  const BatchShare share_;
  const PinnedStaging staging_;
};

}  // namespace millrace
