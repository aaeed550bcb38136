// The fused update of EmbeddingBags, and the calls of its observers.

#include <algorithm>
#include <cstdint>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "model/batch_bags.hpp"
#include "model/cuda/kernels.hpp"
#include "model/dispatch.hpp"
#include "model/expected_rows.hpp"
#include "model/host/embedding.hpp"
#include "model/row_cache.hpp"
#include "model/row_runs.hpp"
#include "model/shapes.hpp"

namespace millrace {

using namespace model;

UpdatedTables<float> EmbeddingBags::rows_at(const Array<std::int32_t>& slots) const {
  UpdatedTables<float> tables{
      .home = {updates(weights_, scalars_), updates(first_moment_, first_moment_size_),
               updates(second_moment_, second_moment_size_)},
      .slots = reads(slots),
      .layout = {.moment_of_row = state_of_row(options_.optimizer.kind) != 0}};
  if (cached()) {
    tables.cached = cache_->cached();
    tables.states = cache_->states();
    tables.layout.width = cache_->slot_width();
  }
  return tables;
}

// Ids are sorted by row first. A row that a batch has several times is updated once, by the sum of
// its gradients in the order of the batch. The result therefore does not depend on the timing of
// threads.
template <typename Id, typename Offset, typename Key>
void EmbeddingBags::update_rows(const BatchBags& bags, const PooledMatrix& gradient,
                                StreamRef stream) {
  const std::size_t count = bags.ids_count();
  const double ids = static_cast<double>(count);
  const Array<std::uint32_t> bag_of = context_.scratch<std::uint32_t>(count, stream);
  RowRuns<Key> runs = find_row_runs<Key>(
      context_, count, static_cast<Key>(rows_), stream, [&](auto rows, auto positions) {
        enqueue<host::linearise<Key, Id, Offset>, cuda::linearise<Key, Id, Offset>>(
            context_, stream, {.name = "linearize", .bytes = ids * (sizeof(Id) + sizeof(Key) + 8)},
            LineariseArguments<Key, Id, Offset>{.rows = rows,
                                                .positions = positions,
                                                .bag_of = writes(bag_of),
                                                .bags = bags.layout<Offset>(),
                                                .ids = bags.ids<Id>(),
                                                .none = static_cast<Key>(rows_)});
      });

  Array<std::int32_t> slots =
      locate(runs.unique.data(), runs.unique.size(), runs.count.data(), stream);
  const double moved = row_bytes(bags.batch);
  double at_home = 0;
  if (cached()) {
    const ExpectedRows rows = expected(bags.batch);
    at_home = rows.unique_bytes() * rows.unplaced_share();
  }
  // Called before the kernel is enqueued: an observer that still reads rows on another stream makes
  // `stream` wait for that. After the launch it would be too late.
  rows_will_move(stream);
  const double state = 2 + 2 * static_cast<double>(state_of_parameter(options_.optimizer.kind));
  enqueue<host::update_rows<float, Key, Offset>, cuda::update_rows<Key, Offset>>(
      context_, stream,
      {.name = "update tables",
       .flops = moved,
       .bytes = moved * (1 + state) + ids * 12 - 2 * at_home,
       .host_read = at_home,
       .host_written = at_home},
      UpdateRowsArguments<float, Key, Offset>{.tables = rows_at(slots),
                                              .gradient = bags.read(gradient),
                                              .bags = bags.layout<Offset>(),
                                              .factors = bags.weights(),
                                              .sorted = {.rows = reads(runs.unique),
                                                         .starts = reads(runs.starts),
                                                         .count = reads(runs.count),
                                                         .positions = reads(runs.positions),
                                                         .bag_of = reads(bag_of)},
                                              .rule = rule_of<float>(options_.optimizer, steps_)});
  // Without an observer, the runs are freed at the end of this function, in stream order. An
  // observer also gets the buffers and can record its own use of them.
  if (observers_.empty()) return;
  const ExpectedRows rows = expected(bags.batch);
  const RowUpdate update{.rows = runs.unique.data(),
                         .row_type = row_type(),
                         .count = runs.count.data(),
                         .most = std::min(count, rows_),
                         .step = steps_,
                         .stream = stream,
                         .tables = views_,
                         .slots = slots.data(),
                         .cache = slot_view(),
                         .expected = rows.of_tables(),
                         .at_home = cached() ? rows.unplaced_share() : 0,
                         .memory = {&runs.unique.buffer(), &runs.count.buffer(), &slots.buffer()}};
  for (RowUpdateObserver* observer : observers_) observer->rows_updated(update);
}

void EmbeddingBags::rows_will_move(StreamRef stream) {
  for (RowUpdateObserver* observer : observers_) observer->rows_will_move(stream);
}

void EmbeddingBags::update(const KeyedJaggedTensor& batch, const float* factors,
                           const PooledMatrix& gradient, StreamRef stream) {
  const BatchBags bags = bags_of(batch, factors);
  if (options_.optimizer.kind == OptimizerKind::none) return;
  // Counted before the rule and observers read it: steps count from 1, as Adam's bias correction
  // needs, and an observer's rows have the number of the step that made them. A step without ids
  // counts, too, so that all ranks have equal counts and observers see every step.
  ++steps_;
  if (bags.ids_count() == 0) {
    const RowUpdate nothing{
        .row_type = row_type(), .step = steps_, .stream = stream, .tables = views_};
    for (RowUpdateObserver* observer : observers_) observer->rows_updated(nothing);
    return;
  }
  const auto& layout = batch.layout();
  with_types(layout.value_type, layout.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    // With 32-bit keys, which suffice for most models, the sort moves half as many bytes.
    if (row_type() == IndexType::int32) {
      update_rows<Id, Offset, std::uint32_t>(bags, gradient, stream);
    } else {
      update_rows<Id, Offset, std::uint64_t>(bags, gradient, stream);
    }
  });
}

}  // namespace millrace
