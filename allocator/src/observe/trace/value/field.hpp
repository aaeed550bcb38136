#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::trace {

/**
 * @brief A value and how it was reached, so that whatever is wrong with it can be said with its
 * path of keys. Borrows the field above it, the key and the source; lives on the stack only. Every
 * function throws ParseError if the value is not of the type that it asks for.
 */
class Field {
 public:
  Field(Value value, const std::string& source) : value_{value}, source_{source} {}

  [[nodiscard]] bool is(ValueKind kind) const { return value_.is(kind); }
  [[nodiscard]] const Value& value() const { return value_; }

  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] std::uint64_t natural() const;  ///< an integer from 0
  [[nodiscard]] double number() const;          ///< finite
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string_view text() const;

  [[nodiscard]] std::size_t size() const;                   ///< only for a list or tuple
  [[nodiscard]] Field operator[](std::size_t index) const;  ///< only for a list or tuple
  [[nodiscard]] Field operator[](
      std::string_view key) const;  ///< only for a dict; throws if the key is missing
  [[nodiscard]] std::optional<Field> find(
      std::string_view key) const;  ///< only for a dict; std::nullopt if the key is missing or None

  /** @brief Says of this field what is wrong with it. */
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  Field(Value value, const Field& parent, std::string_view key)
      : value_{value}, source_{parent.source_}, parent_{&parent}, key_{key} {}
  Field(Value value, const Field& parent, std::size_t index)
      : value_{value}, source_{parent.source_}, parent_{&parent}, index_{index} {}

  [[nodiscard]] std::string path() const;
  void require(ValueKind kind) const;

  Value value_;
  const std::string& source_;
  const Field* parent_ = nullptr;
  std::string_view key_;  // of the parent; empty for an item of a list
  std::size_t index_ = 0;
};

/** @brief `text` in quotes, shortened and with unprintable bytes escaped: for messages. */
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace millrace::trace
