#include "millrace/pipeline/data/share_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace millrace {
namespace {

struct Range {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
};

template <typename Function>
void with_lengths(IndexType type, Function&& function) {
  if (type == IndexType::int32) {
    function(std::int32_t{});
  } else {
    function(std::int64_t{});
  }
}

/** Returns the range of these examples' values, for each key. */
std::vector<Range> values_of(const KeyedJaggedTensor& from, Range examples) {
  std::vector<Range> values;
  with_lengths(from.layout().length_type, [&]<typename Offset>(Offset) {
    const auto offsets = from.offsets().as<const Offset>();
    for (std::size_t key = 0; key < from.key_count(); ++key) {
      const std::size_t bag = key * from.batch_size();
      values.push_back({static_cast<std::size_t>(offsets[bag + examples.begin]),
                        static_cast<std::size_t>(offsets[bag + examples.end])});
    }
  });
  return values;
}

JaggedLayout part_of(const JaggedLayout& whole, Range examples, const std::vector<Range>& values) {
  if (whole.key_count() == 0) return whole;
  JaggedLayout part = whole;
  part.batch_size = examples.size();
  part.counts.clear();
  for (const Range& of_key : values) part.counts.push_back(of_key.size());
  return part;
}

void copy_bytes(const BatchTensor& to, std::size_t at, const BatchTensor& from, Range bytes) {
  if (bytes.size() == 0) return;
  std::memcpy(to.as<std::byte>().data() + at, from.as<std::byte>().data() + bytes.begin,
              bytes.size());
}

void copy_features(const KeyedJaggedTensor& to, const KeyedJaggedTensor& from, Range examples,
                   const std::vector<Range>& values) {
  const std::size_t id = bytes_of(from.layout().value_type);
  std::size_t done = 0;
  for (const Range& of_key : values) {
    copy_bytes(to.values(), done * id, from.values(), {of_key.begin * id, of_key.end * id});
    if (from.weighted()) {
      copy_bytes(to.weights(), done * sizeof(float), from.weights(),
                 {of_key.begin * sizeof(float), of_key.end * sizeof(float)});
    }
    done += of_key.size();
  }
  if (from.empty()) return;
  with_lengths(from.layout().length_type, [&]<typename Offset>(Offset) {
    const auto whole = from.lengths().as<const Offset>();
    const auto lengths = to.lengths().as<Offset>();
    const auto offsets = to.offsets().as<Offset>();
    offsets[0] = 0;
    for (std::size_t bag = 0; bag < lengths.size(); ++bag) {
      const std::size_t key = bag / examples.size(), example = bag % examples.size();
      lengths[bag] = whole[key * from.batch_size() + examples.begin + example];
      offsets[bag + 1] = offsets[bag] + lengths[bag];
    }
  });
}

}  // namespace

ShareSource::ShareSource(std::unique_ptr<EpochSource> source, BatchShare share,
                         const PinnedStaging& staging)
    : source_(std::move(source)), share_(share), staging_(staging) {
  if (share.rank < share.ranks) return;
  throw std::invalid_argument{fmt::format("rank {} of a share is out of range: there are {} ranks",
                                          share.rank, share.ranks)};
}

std::optional<ModelInput> ShareSource::do_next() {
  const BatchPosition before = source_->position();
  const std::optional<ModelInput> batch = source_->next();
  if (!batch) return std::nullopt;
  const InputTensors& whole = batch->contents();
  const Range examples{share_.begin(whole.batch_size), share_.end(whole.batch_size)};
  const std::vector<Range> sparse = values_of(whole.sparse, examples);
  const std::vector<Range> weighted = values_of(whole.weighted, examples);
  const InputShape shape{.batch_size = examples.size(),
                         .dense_features = whole.dense_features,
                         .labeled = !whole.labels.empty(),
                         .sparse = part_of(whole.sparse.layout(), examples, sparse),
                         .weighted = part_of(whole.weighted.layout(), examples, weighted)};
  try {
    ModelInput part{staging_.pinned, staging_.copy, shape};
    const InputTensors& to = part.contents();
    const std::size_t dense = whole.dense_features * sizeof(float);
    copy_bytes(to.dense, 0, whole.dense, {examples.begin * dense, examples.end * dense});
    copy_bytes(to.labels, 0, whole.labels,
               {examples.begin * sizeof(float), examples.end * sizeof(float)});
    copy_features(to.sparse, whole.sparse, examples, sparse);
    copy_features(to.weighted, whole.weighted, examples, weighted);
    return part;
  } catch (...) {
    // The batch was drawn but not delivered, so the next call must draw it again.
    source_->seek(before);
    throw;
  }
}

}  // namespace millrace
