#include "sharding/outgoing.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "data/segment_copy.hpp"
#include "millrace/pipeline/kernels/enqueue.hpp"
#include "model/dispatch.hpp"
#include "sharding/host/kernels.hpp"

namespace millrace::sharding {

using model::Declared;
using model::reads;
using model::with_type;
using model::with_types;
using model::writes;

namespace {

template <typename T>
auto reads_all(const BatchTensor& tensor) {
  return reads(static_cast<const T*>(tensor.data()), tensor.bytes() / sizeof(T));
}
template <typename T>
auto writes_all(const BatchTensor& tensor) {
  return writes(static_cast<T*>(tensor.data()), tensor.bytes() / sizeof(T));
}

double bytes_of(const KeyedJaggedTensor& features) {
  const JaggedLayout& layout = features.layout();
  return static_cast<double>(layout.value_bytes() + layout.offset_bytes() + layout.weight_bytes());
}

}  // namespace

// A table that is sharded by rows needs only some ids of a bag on each rank. Those features are
// first split by rank, into one tensor. All other features are taken from the batch.
Outgoing::Outgoing(ModelContext& context, const JaggedScope& scope, const Side& side,
                   const KeyedJaggedTensor& input, PinnedPool& pinned)
    : input_(input), ranks_(side.slots.size()), cost_only_(context.cost_only()) {
  for (const Slot& slot : side.slots.front()) {
    if (!slot.by_rows) continue;
    split_features_.push_back({static_cast<std::int64_t>(input.find(slot.feature)), slot.block});
  }
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    std::size_t row = rank * split_features_.size();
    for (const Slot& slot : side.slots[rank]) {
      from_.push_back(slot.by_rows ? From{true, row++} : From{false, input.find(slot.feature)});
    }
  }
  // The batch may be freed before the reads that are enqueued here have run.
  input_.record_use(scope.stream);
  if (splits()) split(context, scope, pinned);
}

void Outgoing::split(ModelContext& context, const JaggedScope& scope, PinnedPool& pinned) {
  const std::size_t batch = input_.batch_size();
  const std::size_t rows = ranks_ * split_features_.size();
  const JaggedLayout& from = input_.layout();
  const std::size_t feature_bytes = split_features_.size() * sizeof(SplitFeature);
  const std::size_t count_bytes = rows * sizeof(std::int64_t);
  room_ = pinned.take(feature_bytes + count_bytes, scope.stream);
  std::memcpy(room_.data(), split_features_.data(), feature_bytes);

  const auto room = [&](std::size_t bytes) {
    return BatchTensor{scope.memory, bytes, scope.stream, scope.tag};
  };
  Device& device = context.device();
  const BatchTensor features = room(feature_bytes);
  device.copy(features.data(), room_.data(), feature_bytes, CopyKind::host_to_device,
              scope.stream.handle());
  std::size_t ids = 0;
  for (const SplitFeature& feature : split_features_) {
    ids += input_.value_count(static_cast<std::size_t>(feature.key));
  }
  const JaggedLayout layout{.keys = make_keys({"split"}),
                            .batch_size = rows * batch,
                            .counts = {ids},
                            .weighted = from.weighted,
                            .value_type = from.value_type,
                            .length_type = from.length_type};
  const KeyedJaggedTensor::Tensors tensors{.values = room(layout.value_bytes()),
                                           .lengths = room(layout.length_bytes()),
                                           .offsets = {},
                                           .weights = room(layout.weight_bytes())};
  const BatchTensor counts = room(count_bytes);
  with_types(from.value_type, from.length_type, [&]<typename Id, typename Offset>(Id, Offset) {
    const BagsToSplit<Offset> bags{.features = reads_all<SplitFeature>(features),
                                   .offsets = reads_all<Offset>(input_.offsets()),
                                   .batch = batch,
                                   .ranks = ranks_};
    if (batch > 0) {
      model::enqueue<host::split_lengths<Id, Offset>, cuda::split_lengths<Id, Offset>>(
          context, scope.stream,
          {.name = "split lengths",
           .bytes = bytes_of(input_) + static_cast<double>(layout.length_bytes())},
          SplitLengthsArguments<Id, Offset>{.lengths = writes_all<Offset>(tensors.lengths),
                                            .ids = reads_all<Id>(input_.values()),
                                            .bags = bags});
    }
    split_ = from_lengths(scope, layout, tensors);
    if (ids > 0) {
      model::enqueue<host::split_values<Id, Offset>, cuda::split_values<Id, Offset>>(
          context, scope.stream,
          {.name = "split ids", .bytes = bytes_of(input_) + bytes_of(split_)},
          SplitValuesArguments<Id, Offset>{.split_ids = writes_all<Id>(split_.values()),
                                           .split_weights = writes_all<float>(split_.weights()),
                                           .split_offsets = reads_all<Offset>(split_.offsets()),
                                           .ids = reads_all<Id>(input_.values()),
                                           .weights = reads_all<float>(input_.weights()),
                                           .bags = bags});
    }
    model::enqueue<host::count_split<Offset>, cuda::count_split<Offset>>(
        context, scope.stream,
        {.name = "count split", .bytes = static_cast<double>(2 * count_bytes)},
        writes_all<std::int64_t>(counts), reads_all<Offset>(split_.offsets()), batch);
  });
  // The host needs the counts for the sizes that ranks exchange. It reads them later, in
  // split_counts(): the copy overlaps whatever the host enqueues until then.
  device.copy(room_.data() + feature_bytes, counts.data(), count_bytes, CopyKind::device_to_host,
              scope.stream.handle());
  // The pool reuses the piece only when this record is complete.
  room_.record_use();
}

// If nothing is computed, the ids are assumed to be spread evenly.
std::vector<std::size_t> Outgoing::split_counts() const {
  std::vector<std::size_t> counts(ranks_ * split_features_.size());
  const auto* const pinned = reinterpret_cast<const std::int64_t*>(
      room_.data() + split_features_.size() * sizeof(SplitFeature));
  for (std::size_t row = 0; row < counts.size(); ++row) {
    const SplitFeature& feature = split_features_[row % split_features_.size()];
    const std::size_t ids = input_.value_count(static_cast<std::size_t>(feature.key));
    const std::size_t rank = row / split_features_.size();
    counts[row] = cost_only_ ? ids * (rank + 1) / ranks_ - ids * rank / ranks_
                             : static_cast<std::size_t>(pinned[row]);
  }
  return counts;
}

std::vector<std::size_t> Outgoing::counts() const {
  const std::vector<std::size_t> split = splits() ? split_counts() : std::vector<std::size_t>{};
  std::vector<std::size_t> counts;
  for (const From& from : from_) {
    counts.push_back(from.split ? split[from.row] : input_.value_count(from.row));
  }
  return counts;
}

// One launch for all pieces: a copy for each feature and rank would cost a call of the driver each.
Features Outgoing::gather(const JaggedScope& scope, const std::vector<std::size_t>& counts) const {
  const JaggedLayout& layout = input_.layout();
  const std::size_t id = millrace::bytes_of(layout.value_type);
  const std::size_t of_bags = input_.batch_size() * millrace::bytes_of(layout.length_type);
  const std::size_t ids = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto room = [&](std::size_t bytes) {
    return BatchTensor{scope.memory, bytes, scope.stream, scope.tag};
  };
  Features to{room(from_.size() * of_bags), room(ids * id),
              room(layout.weighted ? ids * sizeof(float) : 0)};

  std::vector<std::size_t> split_starts(1, 0);
  if (splits()) {
    for (const std::size_t count : split_counts()) {
      split_starts.push_back(split_starts.back() + count);
    }
  }
  SegmentCopy copy{.name = "to the ranks' order",
                   .sources = {input_.lengths(), input_.values(), input_.weights(),
                               split_.lengths(), split_.values(), split_.weights()},
                   .targets = {to.lengths, to.values, to.weights},
                   .segments = {}};
  std::size_t at = 0;
  for (std::size_t slot = 0; slot < from_.size(); ++slot) {
    const auto [split, row] = from_[slot];
    const std::size_t source = split ? 3 : 0;
    const std::size_t start = split ? split_starts[row] : input_.value_start(row);
    const std::size_t count = counts[slot];
    copy.segments.push_back({source, row * of_bags, 0, slot * of_bags, of_bags});
    copy.segments.push_back({source + 1, start * id, 1, at * id, count * id});
    if (layout.weighted) {
      copy.segments.push_back(
          {source + 2, start * sizeof(float), 2, at * sizeof(float), count * sizeof(float)});
    }
    at += count;
  }
  std::move(copy).launch(scope);
  return to;
}

}  // namespace millrace::sharding
