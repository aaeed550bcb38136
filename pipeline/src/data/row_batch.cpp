#include "data/row_batch.hpp"

#include <algorithm>

namespace millrace {

RowBatch::RowBatch(const InputSchema& schema)
    : schema_(schema), keys_(keys_of(schema.sparse)), counts_(schema.sparse.size()) {}

void RowBatch::add(float label, std::span<const float> dense, std::span<const std::int64_t> ids) {
  labels_.push_back(label);
  dense_.insert(dense_.end(), dense.begin(), dense.end());
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  for (std::size_t key = 0; key < counts_.size(); ++key) counts_[key] += ids[key] == kNone ? 0 : 1;
}

void RowBatch::clear() {
  labels_.clear();
  dense_.clear();
  ids_.clear();
  std::fill(counts_.begin(), counts_.end(), 0);
}

ModelInput RowBatch::stage(const PinnedStaging& staging) const {
  InputShape shape{.batch_size = size(), .dense_features = schema_.dense.size()};
  shape.sparse = {.keys = keys_,
                  .batch_size = size(),
                  .counts = counts_,
                  .value_type = schema_.value_type,
                  .length_type = schema_.length_type};
  ModelInput batch{staging.pinned, staging.copy, shape};
  const InputTensors& to = batch.contents();
  std::ranges::copy(dense_, to.dense.as<float>().begin());
  std::ranges::copy(labels_, to.labels.as<float>().begin());
  if (schema_.value_type == IndexType::int32) {
    write_values<std::int32_t>(to.sparse);
  } else {
    write_values<std::int64_t>(to.sparse);
  }
  if (schema_.length_type == IndexType::int32) {
    write_lengths<std::int32_t>(to.sparse);
  } else {
    write_lengths<std::int64_t>(to.sparse);
  }
  return batch;
}

template <typename Index>
void RowBatch::write_values(const KeyedJaggedTensor& to) const {
  auto value = to.values().as<Index>().begin();
  // Examples are stored one by one, but in a batch all bags of a key are adjacent.
  for (std::size_t key = 0; key < counts_.size(); ++key) {
    for (std::size_t row = 0; row < size(); ++row) {
      const std::int64_t id = ids_[row * counts_.size() + key];
      if (id != kNone) *value++ = static_cast<Index>(id);
    }
  }
}

template <typename Index>
void RowBatch::write_lengths(const KeyedJaggedTensor& to) const {
  if (counts_.empty()) return;
  const auto lengths = to.lengths().as<Index>();
  const auto offsets = to.offsets().as<Index>();
  offsets[0] = 0;
  for (std::size_t bag = 0; bag < lengths.size(); ++bag) {
    const std::size_t key = bag / size(), row = bag % size();
    lengths[bag] = ids_[row * counts_.size() + key] == kNone ? 0 : 1;
    offsets[bag + 1] = offsets[bag] + lengths[bag];
  }
}

}  // namespace millrace
