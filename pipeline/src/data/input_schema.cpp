#include "millrace/pipeline/data/input_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>

namespace millrace {
namespace {

/** Returns the example whose bag contains value number `position` of a key. */
std::size_t example_of(const KeyedJaggedTensor& ids, std::size_t key, std::size_t position) {
  std::size_t example = 0;
  for (std::size_t end = 0; example < ids.batch_size(); ++example) {
    const std::size_t bag = key * ids.batch_size() + example;
    end += ids.layout().length_type == IndexType::int32
               ? static_cast<std::size_t>(ids.lengths().as<const std::int32_t>()[bag])
               : static_cast<std::size_t>(ids.lengths().as<const std::int64_t>()[bag]);
    if (position < end) break;
  }
  return example;
}

template <typename Index>
void check_values(const KeyedJaggedTensor& ids, const std::vector<SparseFeature>& features) {
  const auto values = ids.values().as<const Index>();
  for (std::size_t key = 0; key < features.size(); ++key) {
    const auto mine = values.subspan(ids.value_start(key), ids.value_count(key));
    const std::size_t rows = features[key].rows;
    const auto wrong = std::find_if(mine.begin(), mine.end(), [rows](Index id) {
      return id < 0 || static_cast<std::uint64_t>(id) >= rows;
    });
    if (wrong == mine.end()) continue;
    const auto position = static_cast<std::size_t>(wrong - mine.begin());
    throw InvalidIdError{features[key], *wrong, example_of(ids, key, position)};
  }
}

void check_group(const KeyedJaggedTensor& ids, const std::vector<SparseFeature>& features) {
  if (ids.empty() && ids.batch_size() == 0 && features.empty()) return;
  bool same = ids.key_count() == features.size();
  for (std::size_t key = 0; same && key < features.size(); ++key) {
    same = ids.key(key) == features[key].name;
  }
  if (!same) {
    throw std::invalid_argument{fmt::format(
        "the batch's {} sparse features are not the {} of the schema, or not in its order",
        ids.key_count(), features.size())};
  }
  if (ids.layout().value_type == IndexType::int32) {
    check_values<std::int32_t>(ids, features);
  } else {
    check_values<std::int64_t>(ids, features);
  }
}

void check_feature(const SparseFeature& feature, const InputSchema& schema,
                   std::map<std::string, std::size_t>& tables) {
  if (feature.rows == 0) {
    throw std::invalid_argument{
        fmt::format("the table '{}' of feature '{}' has no rows", feature.table, feature.name)};
  }
  if (schema.value_type == IndexType::int32 &&
      feature.rows > std::size_t{1} + std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument{
        fmt::format("the table '{}' has {} rows, more than int32 ids can name; use int64",
                    feature.table, feature.rows)};
  }
  const auto [known, fresh] = tables.emplace(feature.table, feature.rows);
  if (!fresh && known->second != feature.rows) {
    throw std::invalid_argument{
        fmt::format("the table '{}' has {} rows for one feature and {} for '{}'", feature.table,
                    known->second, feature.rows, feature.name)};
  }
}

}  // namespace

InvalidIdError::InvalidIdError(const SparseFeature& feature, std::int64_t id, std::size_t example)
    : std::out_of_range{fmt::format("id {} of feature '{}' (example {} of the batch, from 0) is "
                                    "not a row of the table '{}', which "
                                    "has {}",
                                    id, feature.name, example, feature.table, feature.rows)},
      feature_(feature),
      id_(id),
      example_(example) {}

void InputSchema::check() const {
  std::map<std::string, std::size_t> tables;
  std::set<std::string> names;
  for (const auto* group : {&sparse, &weighted}) {
    for (const SparseFeature& feature : *group) {
      check_feature(feature, *this, tables);
      if (!names.insert(feature.name).second) {
        throw std::invalid_argument{fmt::format("the feature '{}' occurs twice", feature.name)};
      }
    }
  }
  for (const std::string& name : dense) {
    // A dense and a sparse feature may have one name: both can be made from the same column.
    if (!names.insert("dense " + name).second) {
      throw std::invalid_argument{fmt::format("the dense feature '{}' occurs twice", name)};
    }
  }
}

Keys keys_of(const std::vector<SparseFeature>& features) {
  std::vector<std::string> names;
  names.reserve(features.size());
  for (const SparseFeature& feature : features) names.push_back(feature.name);
  return make_keys(std::move(names));
}

void check_ids(const InputTensors& batch, const InputSchema& schema) {
  check_group(batch.sparse, schema.sparse);
  check_group(batch.weighted, schema.weighted);
}

}  // namespace millrace
