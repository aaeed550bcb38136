#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/pipeline/data/jagged_operations.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "sharding/layout.hpp"
#include "sharding/pinned_pool.hpp"

namespace millrace::sharding {

/** @brief Lengths, ids and weights of several features, each concatenated. */
struct Features {
  BatchTensor lengths, values, weights;
};

/**
 * @brief One side of a batch, rearranged in the order of the ranks to which it is sent.
 *
 * Features that go to one rank are copied. Features of row-wise tables are first split among the
 * ranks. The number of their ids for each rank is known only on the device until the counts have
 * been copied to the host.
 */
class Outgoing {
 public:
  /** @param input  read until the work of `gather` is done */
  Outgoing(ModelContext& context, const JaggedScope& scope, const Side& side,
           const KeyedJaggedTensor& input, PinnedPool& pinned);
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  [[nodiscard]] bool splits() const noexcept { return !split_features_.empty(); }
  /** @brief Returns the event that is recorded after the copy of the counts to the host. */
  [[nodiscard]] const Event& counted() const noexcept { return room_.used(); }
  /**
   * @brief Returns the ids of each slot, rank by rank. If `splits`, call it only when `counted` is
   * complete.
   */
  [[nodiscard]] std::vector<std::size_t> counts() const;
  /**
   * @brief Enqueues the rearrangement.
   * @return the features in the order of the slots
   * @param counts  the result of `counts()`
   */
  [[nodiscard]] Features gather(const JaggedScope& scope,
                                const std::vector<std::size_t>& counts) const;

 private:
  struct From {
    bool split = false;
    std::size_t row = 0;  ///< index of the batch's key, or of the row in `split_`
  };

  void split(ModelContext& context, const JaggedScope& scope, PinnedPool& pinned);
  [[nodiscard]] std::vector<std::size_t> split_counts() const;

  const KeyedJaggedTensor input_;
  const std::size_t ranks_;
  const bool cost_only_;
  std::vector<From> from_;  ///< the source of each slot
  std::vector<SplitFeature> split_features_;
  PinnedPool::Piece room_;   ///< `split_features_` for the device, then the counts for the host
  KeyedJaggedTensor split_;  ///< as one feature: [ranks x features x batch] bags
};

}  // namespace millrace::sharding
