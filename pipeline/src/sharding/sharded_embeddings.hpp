#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/model/pooled_embeddings.hpp"
#include "sharding/layout.hpp"

namespace millrace::sharding {

/** @brief This rank's tables and shards, looked up for the examples of all ranks. */
class ShardedEmbeddings final : public PooledEmbeddings {
 public:
  ShardedEmbeddings(ModelContext& context, DenseParameters& parameters,
                    const SparseNNConfig& config, std::shared_ptr<const Layout> layout,
                    ProcessGroup& group);

  std::size_t columns() const noexcept override { return layout_->pooled_columns; }
  std::size_t features() const noexcept override { return layout_->features; }
  std::unique_ptr<PooledLookup> look_up(const SparseFeatures& features, Stream& stream) override;
  void update(PooledLookup& lookup, Stream& stream) override;
  std::string dense_parameters() const override;
  EmbeddingBags& bags() noexcept override { return local_[0]; }
  EmbeddingBags& weighted_bags() noexcept override { return local_[1]; }

 private:
  struct Lookup;

  /** @brief Data-parallel tables: weights are dense parameters, and so are their gradients. */
  struct Everywhere {
    Everywhere(ModelContext& context, DenseParameters& parameters, const Side& side,
               const SparseNNConfig& config);
    void bind(DenseParameters& parameters);

    EmbeddingBags weights, gradients;
    Parameter first;
  };

  void bind();
  [[nodiscard]] std::size_t first_element(std::size_t block, std::size_t batch) const {
    return batch * layout_->columns_before[block];
  }
  void exchange(const Lookup& lookup, float* of_all, float* blocks, bool back, Stream& stream);

  ModelContext& context_;
  DenseParameters& parameters_;
  const std::shared_ptr<const Layout> layout_;
  ProcessGroup& group_;
  std::array<EmbeddingBags, 2> local_;
  std::array<Everywhere, 2> everywhere_;
  bool bound_ = false;
  Array<std::int32_t> first_source_;
  Array<ColumnSource> sources_;
};

}  // namespace millrace::sharding
