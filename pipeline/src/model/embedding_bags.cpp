#include "millrace/pipeline/model/embedding_bags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <stdexcept>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "model/batch_bags.hpp"
#include "model/cuda/kernels.hpp"
#include "model/dispatch.hpp"
#include "model/expected_rows.hpp"
#include "model/host/embedding.hpp"
#include "model/row_cache.hpp"
#include "model/shapes.hpp"

// The tables themselves are in embedding_tables.cpp, their update in embedding_update.cpp.

namespace millrace {

using namespace model;

BatchBags EmbeddingBags::bags_of(const KeyedJaggedTensor& batch, const float* factors) const {
  const auto& keys = batch.layout().keys;
  if (keys == nullptr ? !features_.empty() : *keys != features_) {
    throw std::invalid_argument(
        fmt::format("the batch has the features [{}], the tables are looked up by [{}]",
                    keys == nullptr ? "" : fmt::format("{}", fmt::join(*keys, ", ")),
                    fmt::join(features_, ", ")));
  }
  // Kernels count ids in 32 bits, which halves the traffic of the indices that an update sorts and
  // reads.
  if (batch.value_count() >= std::numeric_limits<std::int32_t>::max() ||
      features_.size() * batch.batch_size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument(fmt::format(
        "a batch of {} values is too large: 2^31 - 2 is the most", batch.value_count()));
  }
  if (factors == nullptr && batch.weighted()) {
    factors = static_cast<const float*>(batch.weights().data());
  }
  return {batch, reads(static_cast<const Lookup*>(lookups_.data()), features_.size()), factors};
}

TableWeights<float> EmbeddingBags::weights_at(const Array<std::int32_t>& slots) const {
  TableWeights<float> weights{.home = reads(static_cast<const float*>(weights_), scalars_),
                              .slots = reads(slots)};
  if (cached()) {
    weights.cached = reads(cache_->cached().weights);
    weights.slot_width = cache_->slot_width();
  }
  return weights;
}

/*
 * Cost figures. A virtual device needs them to time a kernel. They follow from sizes that the host
 * knows; it does not know the ids:
 *   - a lookup reads one row for each id, even if ids repeat: `row_bytes`;
 *   - an update reads a gradient for each id, and reads and writes the row and its optimizer state:
 *     1 + 2 + 2 x state, in units of `row_bytes`. The indices of an id take 12 more bytes;
 *   - with a cache, rows that are expected to have no slot (ExpectedRows) are read and written over
 *     the link instead of device memory.
 */
double EmbeddingBags::row_bytes(const KeyedJaggedTensor& batch) const {
  double scalars = 0;
  for (std::size_t f = 0; f < features_.size(); ++f) {
    scalars += static_cast<double>(batch.value_count(f) * widths_[f]);
  }
  return scalars * kScalar;
}

ExpectedRows EmbeddingBags::expected(const KeyedJaggedTensor& batch) const {
  const OptimizerKind kind = options_.optimizer.kind;
  std::vector<TableLookups> tables;
  for (const TableView& view : views_) {
    const auto width = static_cast<double>(view.width);
    const double state = width * static_cast<double>(state_of_parameter(kind)) +
                         static_cast<double>(state_of_row(kind));
    tables.push_back(
        {.rows = static_cast<double>(view.rows), .row_bytes = kScalar * (width + state)});
  }
  for (std::size_t f = 0; f < features_.size(); ++f) {
    tables[table_of_[f]].lookups += static_cast<double>(batch.value_count(f));
  }
  return {tables, static_cast<double>(cache_slots())};
}

HeldRows EmbeddingBags::prefetch(const KeyedJaggedTensor& batch, StreamRef stream) {
  if (!cached()) return {};
  const BatchBags bags = bags_of(batch, nullptr);
  if (features_.empty() || batch.batch_size() == 0) return {};
  // A prefetch evicts rows, so it must wait for observers that still read them.
  rows_will_move(stream);
  return cache_->prefetch(bags, expected(batch), stream);
}

void EmbeddingBags::look_up(const KeyedJaggedTensor& batch, const float* factors,
                            const PooledMatrix& pooled, StreamRef stream) {
  const BatchBags bags = bags_of(batch, factors);
  if (features_.empty() || batch.batch_size() == 0) return;
  looked_up_on_ = stream;
  const double rows = row_bytes(batch);
  const double out = kScalar * static_cast<double>(batch.batch_size() * columns_);
  const auto& layout = batch.layout();
  const Array<std::int32_t> slots = cached() ? cache_->locate(bags, stream) : Array<std::int32_t>{};
  const double from_host = cached() ? rows * expected(batch).unplaced_share() : 0;
  const Declared declared{
      .name = "look up",
      .flops = rows / kScalar,
      .bytes = rows - from_host + out +
               static_cast<double>(layout.value_bytes() + layout.offset_bytes()) +
               static_cast<double>(slots.size() * sizeof(std::int32_t)),
      .host_read = from_host};
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    enqueue<host::look_up<float, Id, Offset>, cuda::look_up<Id, Offset>>(
        context_, stream, declared,
        LookUpArguments<float, Id, Offset>{.pooled = bags.write(pooled),
                                           .bad = updates(static_cast<BadId*>(bad_.data()), 1),
                                           .tables = weights_at(slots),
                                           .bags = bags.layout<Offset>(),
                                           .ids = bags.ids<Id>(),
                                           .factors = bags.weights()});
  });
}

void EmbeddingBags::factor_gradients(const KeyedJaggedTensor& batch, const PooledMatrix& gradient,
                                     float* out, StreamRef stream) {
  const BatchBags bags = bags_of(batch, nullptr);
  if (bags.ids_count() == 0) return;
  const double rows = row_bytes(batch);
  const auto& layout = batch.layout();
  const Array<std::int32_t> slots = cached() ? cache_->locate(bags, stream) : Array<std::int32_t>{};
  const double from_host = cached() ? rows * expected(batch).unplaced_share() : 0;
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    enqueue<host::factor_gradients<float, Id, Offset>, cuda::factor_gradients<Id, Offset>>(
        context_, stream,
        {.name = "factor gradients",
         .flops = rows / 2,
         .bytes = 2 * rows - from_host,
         .host_read = from_host},
        FactorGradientsArguments<float, Id, Offset>{.gradients = writes(out, bags.ids_count()),
                                                    .pooled_gradient = bags.read(gradient),
                                                    .tables = weights_at(slots),
                                                    .bags = bags.layout<Offset>(),
                                                    .ids = bags.ids<Id>()});
  });
}

std::optional<InvalidId> EmbeddingBags::invalid_id(StreamRef stream) {
  BadId bad;
  Device& device = context_.device();
  if (looked_up_on_ && looked_up_on_->id() != stream.id()) {
    OrderedDevice& ordered = context_.allocator().device();
    Event looked_up;
    ordered.record(looked_up, *looked_up_on_);
    ordered.wait(stream, looked_up);
  }
  device.copy(&bad, bad_.data(), sizeof(BadId), CopyKind::device_to_host, stream.handle());
  device.synchronize(stream.handle());
  if (context_.cost_only() || bad.lookup == BadId::kNone) return std::nullopt;
  device.fill(bad_.data(), 0xFF, bad_.size(), stream.handle());
  device.synchronize(stream.handle());  // lookups may continue on any stream
  const TableConfig& table = configs_[table_of_[bad.lookup]];
  return InvalidId{table.name, features_[bad.lookup], bad.value, table.rows};
}

CacheCounts EmbeddingBags::cache_counts(StreamRef stream) {
  return cached() ? cache_->counts(stream) : CacheCounts{};
}

std::vector<std::int64_t> EmbeddingBags::cached_rows(StreamRef stream) {
  return cached() ? cache_->rows(stream) : std::vector<std::int64_t>{};
}

IndexType EmbeddingBags::row_type() const noexcept {
  return rows_ <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())
             ? IndexType::int32
             : IndexType::int64;
}

SlotView EmbeddingBags::slot_view() const noexcept {
  return cached() ? cache_->view() : SlotView{};
}

Array<std::int32_t> EmbeddingBags::locate(const void* rows, std::size_t most,
                                          const std::uint32_t* count, StreamRef stream) {
  if (!cached() || most == 0) return {};
  if (row_type() == IndexType::int32) {
    return cache_->locate(static_cast<const std::uint32_t*>(rows), most, count, stream);
  }
  return cache_->locate(static_cast<const std::uint64_t*>(rows), most, count, stream);
}

std::size_t EmbeddingBags::cache_slots() const noexcept {
  return cached() ? cache_->slot_count() : 0;
}

}  // namespace millrace
