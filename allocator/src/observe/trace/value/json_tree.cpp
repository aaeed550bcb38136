#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/value_tree.hpp"
#include "millrace/text/parse_number.hpp"
#include "observe/trace/value/tree_builder.hpp"
#include "text/json_number.hpp"
#include "text/json_parser.hpp"

namespace millrace::trace {

namespace {

/** Receives what the JSON parser finds and keeps it as a ValueTree does. */
class JsonTree : public text::JsonHandler {
 public:
  JsonTree(const std::string& text, const TraceLimits& limits)
      : text_{text}, builder_{text.size(), limits} {}

  [[nodiscard]] TreeBuilder& builder() { return builder_; }

  void null() override { push(ValueNode::of(Tag::none)); }
  void boolean(bool value) override { push(ValueNode::of(Tag::boolean, value ? 1 : 0)); }
  void number(std::string_view digits, bool whole) override {
    if (!whole) return push(builder_.real(text::parse_real(digits)));
    const auto value = text::parse_number<std::int64_t>(digits);
    push(value ? builder_.integer(*value) : ValueNode::of(Tag::big_integer));
  }
  void string(std::string_view value) override { push(stretch(value)); }
  void key(std::string_view value) override { push(stretch(value)); }
  void begin_object() override { open_.push_back({builder_.height(), Tag::dict}); }
  void begin_list() override { open_.push_back({builder_.height(), Tag::list}); }
  void end() override {
    const auto [from, kind] = open_.back();
    open_.pop_back();
    guarded([&] { builder_.close(kind, from); });
  }

 private:
  using Tag = ValueNode::Tag;
  struct Open {
    std::size_t from;
    Tag kind;
  };

  template <typename Function>
  static void guarded(const Function& function) {
    try {
      function();
    } catch (const TreeBuilder::TooMuch& problem) {
      throw text::JsonProblem{problem.what()};
    }
  }

  void push(ValueNode node) {
    guarded([&] { builder_.push(node); });
  }

  [[nodiscard]] ValueNode stretch(std::string_view value) {
    return builder_.stretch(Tag::string, static_cast<std::uint64_t>(value.data() - text_.data()),
                            value.size());
  }

  const std::string& text_;
  TreeBuilder builder_;
  std::vector<Open> open_;
};

}  // namespace

ValueTree read_json(std::string text, const std::string& source, const TraceLimits& limits) {
  JsonTree tree{text, limits};
  try {
    text::parse_json(text, tree, {.max_depth = limits.max_depth, .judge_strings = false});
  } catch (const text::JsonError& error) {
    throw ParseError{source, fmt::format("line {}, column {}", error.line(), error.column()),
                     error.what()};
  }
  const ValueNode root = tree.builder().top();
  return tree.builder().finish(std::move(text), root, limits.max_depth);
}

}  // namespace millrace::trace
