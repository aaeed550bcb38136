#pragma once

#include <cstddef>
#include <memory>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

/** @brief Divides the examples of a global batch among the ranks. */
struct BatchShare {
  unsigned rank = 0, ranks = 1;

  /**
   * @brief Index of this rank's first example out of `examples`.
   *
   * The shares of two ranks differ by at most one example. A share may be empty.
   */
  [[nodiscard]] std::size_t begin(std::size_t examples) const noexcept {
    return examples * rank / ranks;
  }
  /** @brief Returns the index of the first example of the next rank's share. */
  [[nodiscard]] std::size_t end(std::size_t examples) const noexcept {
    return examples * (rank + 1) / ranks;
  }
};

/**
 * @brief One rank's share of every batch of a source.
 *
 * Every rank has as many batches as the source, in the source's order, and the shares of all ranks
 * together are the source's batch. If the last batch is short, some ranks may get no examples from
 * it. Positions are those of the source. Every rank reads the whole source, and copies only its own
 * examples into pinned memory.
 */
class ShareSource final : public EpochSource {
 public:
  /** @throws std::invalid_argument if `share.rank` is not less than `share.ranks` */
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
