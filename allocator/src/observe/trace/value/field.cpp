#include "observe/trace/value/field.hpp"

#include <fmt/format.h>

#include <cmath>

#include "millrace/observe/trace/parse_error.hpp"

namespace millrace::trace {

namespace {

// Records have about ten keys; a dict of many, shared by many records, would cost their product.
constexpr std::size_t kMostKeys = 128;

}  // namespace

std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string shown = "'";
  for (const char c : text.substr(0, longest)) {
    if (c >= ' ' && c <= '~')
      shown += c;
    else
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return shown + (text.size() > longest ? "...'" : "'");
}

void Field::fail(const std::string& problem) const { throw ParseError{source_, path(), problem}; }

std::string Field::path() const {
  if (parent_ == nullptr) return "";
  const std::string above = parent_->path();
  if (key_.empty()) return fmt::format("{}[{}]", above, index_);
  return above.empty() ? std::string{key_} : fmt::format("{}.{}", above, key_);
}

void Field::require(ValueKind kind) const {
  if (!value_.is(kind))
    fail(fmt::format("is {}, should be {}", to_string(value_.kind()), to_string(kind)));
}

std::int64_t Field::integer() const {
  require(ValueKind::integer);
  return value_.integer();
}

std::uint64_t Field::natural() const {
  const std::int64_t value = integer();
  if (value < 0) fail(fmt::format("is {}, should not be negative", value));
  return static_cast<std::uint64_t>(value);
}

double Field::number() const {
  if (value_.is(ValueKind::integer)) return static_cast<double>(value_.integer());
  require(ValueKind::real);
  if (!std::isfinite(value_.real())) fail("is not a finite number");
  return value_.real();
}

bool Field::boolean() const {
  if (value_.is(ValueKind::integer)) return value_.integer() != 0;
  require(ValueKind::boolean);
  return value_.boolean();
}

std::string_view Field::text() const {
  require(ValueKind::string);
  return value_.text();
}

std::size_t Field::size() const {
  if (!value_.is(ValueKind::tuple)) require(ValueKind::list);
  return value_.size();
}

Field Field::operator[](std::size_t index) const { return {value_.item(index), *this, index}; }

std::optional<Field> Field::find(std::string_view key) const {
  require(ValueKind::dict);
  if (value_.size() > kMostKeys)
    fail(fmt::format("has {} keys, far more than a record has", value_.size()));
  const auto value = value_.find(key);
  if (!value || value->is(ValueKind::none)) return std::nullopt;
  return Field{*value, *this, key};
}

Field Field::operator[](std::string_view key) const {
  auto field = find(key);
  if (!field) fail(fmt::format("{} is missing", quoted(key)));
  return *field;
}

}  // namespace millrace::trace
