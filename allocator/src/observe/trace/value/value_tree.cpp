#include "millrace/observe/trace/value_tree.hpp"

#include <bit>

#include "observe/trace/value/value_store.hpp"

namespace millrace::trace {

namespace {

using Tag = ValueNode::Tag;

constexpr std::uint64_t kLeastBytesOfRecord = 16;

Tag tag_of(std::uint64_t node) { return ValueNode{node}.tag(); }
std::uint64_t payload_of(std::uint64_t node) { return ValueNode{node}.payload(); }

}  // namespace

const char* to_string(ValueKind kind) noexcept {
  switch (kind) {
    case ValueKind::none:
      return "None";
    case ValueKind::boolean:
      return "a boolean";
    case ValueKind::integer:
      return "an integer";
    case ValueKind::big_integer:
      return "an integer beyond 64 bits";
    case ValueKind::real:
      return "a float";
    case ValueKind::string:
      return "a string";
    case ValueKind::bytes:
      return "bytes";
    case ValueKind::list:
      return "a list";
    case ValueKind::tuple:
      return "a tuple";
    case ValueKind::dict:
      return "a dict";
    case ValueKind::other:
      return "a set or a bytearray";
  }
  return "?";
}

ValueKind Value::kind() const noexcept {
  switch (tag_of(node_)) {
    case Tag::none:
    case Tag::absent:
      return ValueKind::none;
    case Tag::boolean:
      return ValueKind::boolean;
    case Tag::integer:
    case Tag::wide_integer:
      return ValueKind::integer;
    case Tag::big_integer:
      return ValueKind::big_integer;
    case Tag::real:
      return ValueKind::real;
    case Tag::string:
    case Tag::long_string:
      return ValueKind::string;
    case Tag::bytes:
    case Tag::long_bytes:
      return ValueKind::bytes;
    case Tag::list:
      return ValueKind::list;
    case Tag::tuple:
      return ValueKind::tuple;
    case Tag::dict:
      return ValueKind::dict;
    case Tag::other:
      return ValueKind::other;
  }
  return ValueKind::none;
}

bool Value::boolean() const noexcept { return payload_of(node_) != 0; }

std::int64_t Value::integer() const noexcept {
  if (tag_of(node_) == Tag::wide_integer) {
    return std::bit_cast<std::int64_t>(store_->wide[payload_of(node_)]);
  }
  return std::bit_cast<std::int64_t>(node_) >> ValueNode::kTagBits;
}

double Value::real() const noexcept {
  return std::bit_cast<double>(store_->wide[payload_of(node_)]);
}

std::string_view Value::text() const {
  const std::string_view all{store_->text};
  const std::uint64_t payload = payload_of(node_);
  if (tag_of(node_) == Tag::long_string || tag_of(node_) == Tag::long_bytes) {
    return all.substr(store_->wide[payload], store_->wide[payload + 1]);
  }
  return all.substr(payload >> 20, payload & 0xfffff);
}

std::size_t Value::size() const {
  const std::size_t items = store_->containers[payload_of(node_)].size;
  return is(ValueKind::dict) ? items / 2 : items;
}

Value Value::item(std::size_t index) const {
  return {*store_, store_->items[store_->containers[payload_of(node_)].first + index].bits};
}

std::pair<Value, Value> Value::entry(std::size_t index) const {
  return {item(2 * index), item(2 * index + 1)};
}

std::optional<Value> Value::find(std::string_view key) const {
  for (std::size_t index = size(); index-- > 0;) {
    const auto [name, value] = entry(index);
    if (name.is(ValueKind::string) && name.text() == key) return value;
  }
  return std::nullopt;
}

ValueTree::ValueTree(std::unique_ptr<const ValueStore> store) : store_{std::move(store)} {}
ValueTree::ValueTree(ValueTree&&) noexcept = default;
ValueTree& ValueTree::operator=(ValueTree&&) noexcept = default;
ValueTree::~ValueTree() = default;

Value ValueTree::root() const noexcept { return {*store_, store_->root.bits}; }

std::size_t ValueTree::record_bound() const noexcept {
  return store_->containers.size() + store_->text.size() / kLeastBytesOfRecord;
}

std::uint64_t ValueTree::memory_left() const noexcept { return store_->memory_left; }

}  // namespace millrace::trace
