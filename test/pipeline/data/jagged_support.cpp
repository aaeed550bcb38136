#include "test/pipeline/data/jagged_support.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <stdexcept>

namespace millrace::test {
namespace {

template <typename Index>
void write_indices(const std::vector<std::int64_t>& from, const BatchTensor& to) {
  std::ranges::transform(from, to.as<Index>().begin(),
                         [](std::int64_t index) { return static_cast<Index>(index); });
}

void write(IndexType type, const std::vector<std::int64_t>& from, const BatchTensor& to) {
  if (type == IndexType::int32) {
    write_indices<std::int32_t>(from, to);
  } else {
    write_indices<std::int64_t>(from, to);
  }
}

std::vector<std::int64_t> read(IndexType type, const BatchTensor& from) {
  if (type == IndexType::int32) {
    const auto span = from.as<const std::int32_t>();
    return {span.begin(), span.end()};
  }
  const auto span = from.as<const std::int64_t>();
  return {span.begin(), span.end()};
}

}  // namespace

JaggedLayout JaggedLists::layout() const {
  JaggedLayout layout{.batch_size = batch_size,
                      .weighted = weighted,
                      .value_type = value_type,
                      .length_type = length_type};
  std::vector<std::string> names;
  for (const Feature& feature : features) {
    names.push_back(feature.key);
    std::size_t count = 0;
    for (const auto& bag : feature.bags) count += bag.size();
    layout.counts.push_back(count);
  }
  layout.keys = make_keys(std::move(names));
  return layout;
}

JaggedLists drawn_lists(std::size_t batch_size, bool weighted, IndexType value_type,
                        IndexType length_type, std::size_t first_key) {
  JaggedLists lists{batch_size, weighted, value_type, length_type, {}};
  const auto keys = *rc::gen::inRange<std::size_t>(1, 7);
  for (std::size_t key = 0; key < keys; ++key) {
    JaggedLists::Feature feature{"f" + std::to_string(first_key + key), {}, {}};
    for (std::size_t example = 0; example < batch_size; ++example) {
      const auto length = *rc::gen::inRange<std::size_t>(0, 5);
      feature.bags.push_back(*rc::gen::container<std::vector<std::int64_t>>(
          length, rc::gen::inRange<std::int64_t>(0, 1'000'000)));
      feature.weights.emplace_back();
      for (std::size_t i = 0; weighted && i < length; ++i) {
        feature.weights.back().push_back(static_cast<float>(*rc::gen::inRange(0, 100)));
      }
    }
    lists.features.push_back(std::move(feature));
  }
  return lists;
}

JaggedLists drawn_lists() {
  const auto type = rc::gen::element(IndexType::int32, IndexType::int64);
  return drawn_lists(*rc::gen::inRange<std::size_t>(0, 8), *rc::gen::arbitrary<bool>(), *type,
                     *type);
}

KeyedJaggedTensor JaggedBench::pinned_copy(const JaggedLists& lists) {
  const JaggedScope host{.memory = host_memory, .stream = main};
  KeyedJaggedTensor tensor = empty_like(host, lists.layout());
  std::vector<std::int64_t> lengths, offsets{0}, values;
  std::vector<float> weights;
  for (const auto& feature : lists.features) {
    for (std::size_t example = 0; example < lists.batch_size; ++example) {
      const auto& bag = feature.bags[example];
      lengths.push_back(static_cast<std::int64_t>(bag.size()));
      offsets.push_back(offsets.back() + lengths.back());
      values.insert(values.end(), bag.begin(), bag.end());
      weights.insert(weights.end(), feature.weights[example].begin(),
                     feature.weights[example].end());
    }
  }
  if (lists.features.empty()) return tensor;
  write(lists.length_type, lengths, tensor.lengths());
  write(lists.length_type, offsets, tensor.offsets());
  write(lists.value_type, values, tensor.values());
  std::ranges::copy(weights, tensor.weights().as<float>().begin());
  return tensor;
}

JaggedLists JaggedBench::download(const KeyedJaggedTensor& tensor) {
  const JaggedScope host{.memory = host_memory, .stream = main};
  const KeyedJaggedTensor copy = empty_like(host, tensor.layout());
  copy_into(host, tensor, copy, CopyKind::device_to_host);
  main.synchronize();

  const JaggedLayout& layout = copy.layout();
  const std::vector<std::int64_t> lengths = read(layout.length_type, copy.lengths()),
                                  offsets = read(layout.length_type, copy.offsets()),
                                  values = read(layout.value_type, copy.values());
  const auto weights = copy.weights().as<const float>();
  JaggedLists lists{layout.batch_size, layout.weighted, layout.value_type, layout.length_type, {}};
  for (std::size_t bag = 0; bag < lengths.size(); ++bag) {
    if (offsets[bag + 1] - offsets[bag] != lengths[bag]) throw std::logic_error{"wrong offsets"};
  }
  for (std::size_t key = 0; key < copy.key_count(); ++key) {
    JaggedLists::Feature feature{copy.key(key), {}, {}};
    for (std::size_t example = 0; example < layout.batch_size; ++example) {
      const std::size_t bag = key * layout.batch_size + example;
      const auto begin = static_cast<std::ptrdiff_t>(offsets[bag]),
                 end = static_cast<std::ptrdiff_t>(offsets[bag + 1]);
      feature.bags.emplace_back(values.begin() + begin, values.begin() + end);
      feature.weights.emplace_back();
      if (layout.weighted) {
        feature.weights.back().assign(weights.begin() + begin, weights.begin() + end);
      }
    }
    lists.features.push_back(std::move(feature));
  }
  if (!offsets.empty() && (offsets.front() != 0 || copy.value_count() != values.size())) {
    throw std::logic_error{"offsets do not begin at 0"};
  }
  return lists;
}

}  // namespace millrace::test
