#include "millrace/observe/trace/value_tree.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace millrace::trace {

namespace {

bool is_container(ValueKind kind) {
  return kind == ValueKind::list || kind == ValueKind::tuple || kind == ValueKind::dict;
}

/** Heights of all containers below a root, without recursion. */
class NestingCheck {
 public:
  NestingCheck(const ValueTree::Containers& containers, std::size_t max_depth)
      : containers_{containers}, max_depth_{max_depth}, heights_(containers.size(), kUnseen) {}

  void run(ValueNode root) {
    if (!is_container(root.kind)) return;
    enter(root.bits);
    while (!path_.empty()) advance();
  }

 private:
  static constexpr std::uint32_t kUnseen = 0;
  static constexpr std::uint32_t kOnPath = UINT32_MAX;
  struct Step {
    std::uint64_t container;
    std::size_t next;
    std::uint32_t height;
  };

  void enter(std::uint64_t container) {
    heights_[container] = kOnPath;
    path_.push_back({container, 0, 1});
    require_depth(path_.size());
  }

  void advance() {
    Step& step = path_.back();
    const auto& items = containers_[step.container];
    while (step.next < items.size() && !is_container(items[step.next].kind)) ++step.next;
    if (step.next == items.size()) return leave();
    const std::uint64_t child = items[step.next].bits;
    if (heights_[child] == kOnPath) throw std::invalid_argument{"an object contains itself"};
    if (heights_[child] == kUnseen) return enter(child);
    step.height = std::max(step.height, heights_[child] + 1);
    require_depth(step.height);
    ++step.next;
  }

  void leave() {
    heights_[path_.back().container] = path_.back().height;
    path_.pop_back();
  }

  void require_depth(std::size_t depth) const {
    if (depth <= max_depth_) return;
    throw std::invalid_argument{"nested more than " + std::to_string(max_depth_) + " deep"};
  }

  const ValueTree::Containers& containers_;
  std::size_t max_depth_;
  std::vector<std::uint32_t> heights_;
  std::vector<Step> path_;
};

}  // namespace

const char* to_string(ValueKind kind) noexcept {
  switch (kind) {
    case ValueKind::none:
      return "None";
    case ValueKind::boolean:
      return "a boolean";
    case ValueKind::integer:
      return "an integer";
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
  }
  return "?";
}

ValueTree::ValueTree(std::string text, Containers containers, ValueNode root, std::size_t max_depth)
    : text_{std::move(text)}, containers_{std::move(containers)}, root_{root} {
  NestingCheck{containers_, max_depth}.run(root_);
}

std::size_t ValueTree::record_bound() const noexcept {
  return std::max(text_.size(), containers_.size());
}

const std::vector<ValueNode>& Value::items() const { return tree_->containers_[node_.bits]; }

std::string_view Value::text() const {
  return std::string_view{tree_->text_}.substr(node_.bits, node_.length);
}

std::size_t Value::size() const { return items().size() / (is(ValueKind::dict) ? 2 : 1); }

Value Value::item(std::size_t index) const { return {*tree_, items()[index]}; }

std::pair<Value, Value> Value::entry(std::size_t index) const {
  return {Value{*tree_, items()[2 * index]}, Value{*tree_, items()[2 * index + 1]}};
}

std::optional<Value> Value::find(std::string_view key) const {
  for (std::size_t index = size(); index-- > 0;) {
    const auto [name, value] = entry(index);
    if (name.is(ValueKind::string) && name.text() == key) return value;
  }
  return std::nullopt;
}

}  // namespace millrace::trace
