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

/** @brief Lengths, ids and weights of several features, one behind the other. */
struct Features {
  BatchTensor lengths, values, weights;
};

/**
 * @brief One side of a batch, brought into the order of the ranks that it goes to.
 *
 * Features that go to one rank are copied. Those that are split by rows are split first, and only
 * the device knows then how many ids go where, until the counts are on the host.
 */
class Outgoing {
 public:
  /** @param input  is read until `gather` */
  Outgoing(ModelContext& context, const JaggedScope& scope, const Side& side,
           const KeyedJaggedTensor& input, PinnedPool& pinned);
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  [[nodiscard]] bool splits() const noexcept { return !split_features_.empty(); }
  /** @brief Behind the copy of the counts to the host. */
  [[nodiscard]] const Event& counted() const noexcept { return room_.used(); }
  /** @brief Ids of each slot, rank by rank; where `splits`, once `counted` is complete. */
  [[nodiscard]] std::vector<std::size_t> counts() const;
  /** @brief The features in the order of the slots; `counts` as above. Enqueued. */
  [[nodiscard]] Features gather(const JaggedScope& scope,
                                const std::vector<std::size_t>& counts) const;

 private:
  struct From {
    bool split = false;
    std::size_t row = 0;  ///< key of the batch, or row of what was split
  };

  void split(ModelContext& context, const JaggedScope& scope, PinnedPool& pinned);
  [[nodiscard]] std::vector<std::size_t> split_counts() const;

  const KeyedJaggedTensor input_;
  const std::size_t ranks_;
  const bool cost_only_;
  std::vector<From> from_;  ///< of each slot
  std::vector<SplitFeature> split_features_;
  PinnedPool::Piece room_;   ///< the features that are split, then the counts
  KeyedJaggedTensor split_;  ///< as one feature: [ranks x features x batch] bags
};

}  // namespace millrace::sharding
