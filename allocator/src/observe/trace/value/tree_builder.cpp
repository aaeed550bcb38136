#include "observe/trace/value/tree_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "observe/trace/value/nesting.hpp"

namespace millrace::trace {

TreeBuilder::TreeBuilder(std::uint64_t inflated, const TraceLimits& limits)
    : budget_{inflated, limits},
      max_values_{std::min(limits.max_values, std::size_t{1} << 30)},
      store_{std::make_unique<ValueStore>()} {}

ValueNode TreeBuilder::integer(std::int64_t value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const ValueNode small = ValueNode::of(Tag::integer, bits);
  if (std::bit_cast<std::int64_t>(small.bits) >> ValueNode::kTagBits == value) return small;
  store_->wide.push_back(bits);
  return ValueNode::of(Tag::wide_integer, store_->wide.size() - 1);
}

ValueNode TreeBuilder::real(double value) {
  store_->wide.push_back(std::bit_cast<std::uint64_t>(value));
  return ValueNode::of(Tag::real, store_->wide.size() - 1);
}

ValueNode TreeBuilder::stretch(Tag bytes, std::uint64_t begin, std::uint64_t length) {
  if (length < 1U << 20 && begin < std::uint64_t{1} << 40) {
    return ValueNode::of(bytes, begin << 20 | length);
  }
  store_->wide.push_back(begin);
  store_->wide.push_back(length);
  return ValueNode::of(bytes == Tag::string ? Tag::long_string : Tag::long_bytes,
                       store_->wide.size() - 2);
}

void TreeBuilder::require_memory() {
  // A byte of each container is for the check of the nesting.
  const std::uint64_t bytes =
      stack_.bytes() + store_->bytes() + store_->containers.size() + besides_;
  if (bytes > budget_.most()) throw TooMuch{MemoryBudget::problem()};
}

void TreeBuilder::count_also(std::uint64_t bytes) {
  besides_ = bytes;
  require_memory();
}

void TreeBuilder::count_value() {
  if (++pushed_ > max_values_) throw TooMuch{fmt::format("more than {} values", max_values_)};
}

void TreeBuilder::push(ValueNode node) {
  count_value();
  stack_.push_back(node);
  require_memory();
}

// From the end on, giving back what was moved: the values are in memory once and not twice.
void TreeBuilder::move_to_items(std::size_t from, std::uint64_t to) {
  constexpr std::size_t most = std::size_t{1} << 17;
  while (stack_.size() > from) {
    const std::size_t count = std::min(stack_.size() - from, most);
    const std::size_t begin = stack_.size() - count;
    std::memcpy(static_cast<void*>(store_->items.data() + to + (begin - from)),
                stack_.data() + begin, count * sizeof(ValueNode));
    stack_.resize(begin);
    if (count == most) stack_.shrink();
  }
}

void TreeBuilder::close(Tag kind, std::size_t from) {
  count_value();
  const auto count = static_cast<std::uint32_t>(stack_.size() - from);
  const std::size_t first = store_->items.size();
  store_->items.resize(first + count);
  move_to_items(from, first);
  store_->containers.push_back({first, count, count});
  stack_.push_back(ValueNode::of(kind, store_->containers.size() - 1));
  require_memory();
}

void TreeBuilder::append(std::size_t from) {
  const auto count = static_cast<std::uint32_t>(stack_.size() - from);
  auto& items = store_->items;
  auto& container = store_->containers[stack_[from - 1].payload()];
  const bool is_last = container.first + container.capacity == items.size();
  if (count > container.capacity - container.size && is_last) {
    container.capacity = container.size + count;
    items.resize(container.first + container.capacity);
  } else if (count > container.capacity - container.size) {
    // Twice the room, so that moving costs no more than the items do; the old place is lost.
    const std::uint64_t wanted = std::uint64_t{2} * container.size + count;
    const std::uint64_t first = items.size();
    items.resize(first + wanted);
    if (container.size != 0) {
      std::memcpy(static_cast<void*>(items.data() + first), items.data() + container.first,
                  container.size * sizeof(ValueNode));
    }
    container.first = first;
    container.capacity = static_cast<std::uint32_t>(wanted);
  }
  move_to_items(from, container.first + container.size);
  container.size += count;
  require_memory();
}

ValueTree TreeBuilder::finish(std::string text, ValueNode root, std::size_t max_depth) {
  store_->text = std::move(text);
  store_->root = root;
  store_->memory_left = budget_.most() - std::min(budget_.most(), store_->bytes());
  check_nesting(*store_, max_depth);
  return ValueTree{std::unique_ptr<const ValueStore>{std::move(store_)}};
}

}  // namespace millrace::trace
