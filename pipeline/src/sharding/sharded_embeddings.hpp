#pragma once

#include <array>
#include <memory>
#include <string>

#include "millrace/pipeline/model/pooled_embeddings.hpp"
#include "sharding/sharded_bags.hpp"

namespace millrace::sharding {

/**
 * @brief This rank's tables and shards, which it looks up for the examples of all ranks.
 *
 * Pooled rows and their gradients are exchanged on a stream of their own. Therefore the rows of ids
 * without weights are sent while those of ids with weights are looked up, and the stream that reads
 * received rows waits only before it reads them.
 */
class ShardedEmbeddings final : public PooledEmbeddings {
 public:
  ShardedEmbeddings(ModelContext& context, DenseParameters& parameters,
                    const SparseNNConfig& config, std::shared_ptr<const Layout> layout,
                    ProcessGroup& group);

  [[nodiscard]] std::size_t columns() const noexcept override {
    return sides_[0].columns() + sides_[1].columns();
  }
  [[nodiscard]] std::size_t features() const noexcept override {
    return layout_->sides[0].features + layout_->sides[1].features;
  }
  std::unique_ptr<PooledLookup> prefetch(const SparseFeatures& features, Stream& stream) override;
  void look_up(PooledLookup& lookup, Stream& stream) override;
  void receive(PooledLookup& lookup, Stream& stream) override;
  void update(PooledLookup& lookup, Stream& stream) override;
  [[nodiscard]] Event sent() const override { return sent_; }
  [[nodiscard]] std::string dense_parameters() const override;
  EmbeddingBags& bags() noexcept override { return sides_[0].local(); }
  EmbeddingBags& weighted_bags() noexcept override { return sides_[1].local(); }
  EmbeddingBags* dense_bags() noexcept override { return &sides_[0].everywhere(); }
  EmbeddingBags* weighted_dense_bags() noexcept override { return &sides_[1].everywhere(); }

 private:
  struct Lookup;

  void bind();

  ModelContext& context_;
  DenseParameters& parameters_;
  const std::shared_ptr<const Layout> layout_;
  Stream between_ranks_;
  std::array<ShardedBags, 2> sides_;
  const PositionParameters positions_;
  Event sent_;
};

}  // namespace millrace::sharding
