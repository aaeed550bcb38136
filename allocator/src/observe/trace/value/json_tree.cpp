#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::trace {

namespace {

using nlohmann::json;

/** Receives what the JSON parser finds and keeps it as a ValueTree does. Never recurses. */
class TreeBuilder : public json::json_sax_t {
 public:
  TreeBuilder(const std::string& source, const TraceLimits& limits)
      : source_{source}, limits_{limits} {}

  [[nodiscard]] ValueTree take() {
    try {
      return {std::move(text_), std::move(containers_), root_, limits_.max_depth};
    } catch (const std::invalid_argument& problem) {
      throw ParseError{source_, "", fmt::format("JSON refused: {}", problem.what())};
    }
  }

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(ValueNode::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(ValueNode::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(INT64_MAX)) {
      return add(ValueNode::integer(static_cast<std::int64_t>(value)));
    }
    throw ParseError{source_, "",
                     fmt::format("the number {} does not fit in 64 signed bits", value)};
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return add(ValueNode::real(value));
  }
  bool string(string_t& value) override { return add_text(value); }
  bool key(string_t& value) override { return add_text(value); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return open(ValueKind::dict); }
  bool start_array(std::size_t /*size*/) override { return open(ValueKind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t at, const std::string& /*token*/,
                   const json::exception& problem) override {
    throw ParseError{source_, fmt::format("byte {}", at),
                     fmt::format("not valid JSON: {}", strip_prefix(problem.what()))};
  }

 private:
  // nlohmann's messages begin with "[json.exception.parse_error.101] ".
  static std::string_view strip_prefix(std::string_view message) {
    const auto bracket = message.find("] ");
    return bracket == std::string_view::npos ? message : message.substr(bracket + 2);
  }

  bool add(ValueNode node) {
    if (++values_ > limits_.max_values) {
      throw ParseError{source_, "", fmt::format("more than {} values", limits_.max_values)};
    }
    if (open_.empty())
      root_ = node;
    else
      containers_[open_.back()].push_back(node);
    return true;
  }

  bool add_text(const std::string& value) {
    if (value.size() > UINT32_MAX) {
      throw ParseError{source_, "", "a string of 4 GiB or more is not read"};
    }
    add(ValueNode::text(ValueKind::string, text_.size(), value.size()));
    text_ += value;
    return true;
  }

  bool open(ValueKind kind) {
    if (open_.size() == limits_.max_depth) {
      throw ParseError{source_, "", fmt::format("nested more than {} deep", limits_.max_depth)};
    }
    const std::uint64_t container = containers_.size();
    add(ValueNode::container(kind, container));
    containers_.emplace_back();
    open_.push_back(container);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& source_;
  const TraceLimits& limits_;
  std::string text_;
  ValueTree::Containers containers_;
  std::vector<std::uint64_t> open_;
  std::uint64_t values_ = 0;
  ValueNode root_;
};

}  // namespace

ValueTree read_json(std::string_view text, const std::string& source, const TraceLimits& limits) {
  TreeBuilder builder{source, limits};
  json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace millrace::trace
