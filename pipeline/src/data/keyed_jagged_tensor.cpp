#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

namespace millrace {
namespace {

void check_size(std::string_view what, const BatchTensor& tensor, std::size_t bytes) {
  if (tensor.bytes() == bytes) return;
  throw std::invalid_argument{
      fmt::format("the {} of a keyed jagged tensor are {} bytes, where its layout asks for {}",
                  what, tensor.bytes(), bytes)};
}

const std::vector<std::string>& names(const Keys& keys) {
  static const std::vector<std::string> none;
  return keys ? *keys : none;
}

void check_names(const std::vector<std::string>& keys) {
  std::set<std::string_view> seen;
  for (const std::string& key : keys) {
    if (!seen.insert(key).second) {
      throw std::invalid_argument{
          fmt::format("the key '{}' occurs twice in a keyed jagged tensor", key)};
    }
  }
}

}  // namespace

std::string_view to_string(IndexType type) noexcept {
  return type == IndexType::int32 ? "int32" : "int64";
}

Keys make_keys(std::vector<std::string> names) {
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

std::size_t JaggedLayout::value_count() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::size_t JaggedLayout::value_bytes() const noexcept {
  return value_count() * bytes_of(value_type);
}

std::size_t JaggedLayout::length_bytes() const noexcept {
  return bag_count() * bytes_of(length_type);
}

std::size_t JaggedLayout::offset_bytes() const noexcept {
  return key_count() == 0 ? 0 : (bag_count() + 1) * bytes_of(length_type);
}

std::size_t JaggedLayout::weight_bytes() const noexcept {
  return weighted ? value_count() * sizeof(float) : 0;
}

void JaggedLayout::check() const {
  if (counts.size() != key_count()) {
    throw std::invalid_argument{
        fmt::format("a keyed jagged tensor of {} keys is given the value counts of {}", key_count(),
                    counts.size())};
  }
  check_names(names(keys));
  const std::size_t total = value_count();
  if (batch_size == 0 && total > 0) {
    throw std::invalid_argument{
        fmt::format("a keyed jagged tensor of no examples has {} values", total)};
  }
  if (length_type == IndexType::int32 && total > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument{
        fmt::format("{} values are more than int32 offsets can count; use int64 lengths", total)};
  }
}

bool JaggedLayout::operator==(const JaggedLayout& other) const {
  return batch_size == other.batch_size && counts == other.counts && weighted == other.weighted &&
         value_type == other.value_type && length_type == other.length_type &&
         names(keys) == names(other.keys);
}

KeyedJaggedTensor::KeyedJaggedTensor(JaggedLayout layout, Tensors tensors)
    : layout_(std::move(layout)), tensors_(std::move(tensors)) {
  layout_.check();
  check_size("values", tensors_.values, layout_.value_bytes());
  check_size("lengths", tensors_.lengths, layout_.length_bytes());
  check_size("offsets", tensors_.offsets, layout_.offset_bytes());
  check_size("weights", tensors_.weights, layout_.weight_bytes());
  value_starts_.reserve(layout_.counts.size() + 1);
  value_starts_.push_back(0);
  for (const std::size_t count : layout_.counts) {
    value_starts_.push_back(value_starts_.back() + count);
  }
}

std::size_t KeyedJaggedTensor::find(std::string_view key) const {
  const std::vector<std::string>& keys = names(layout_.keys);
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (found == keys.end()) {
    throw std::invalid_argument{
        fmt::format("unknown key '{}' (expected {})", key, fmt::join(keys, ", "))};
  }
  return static_cast<std::size_t>(found - keys.begin());
}

void KeyedJaggedTensor::record_use(StreamRef stream) const {
  for (const BatchTensor* tensor :
       {&tensors_.values, &tensors_.lengths, &tensors_.offsets, &tensors_.weights}) {
    tensor->record_use(stream);
  }
}

}  // namespace millrace
