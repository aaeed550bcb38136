#include "millrace/text/json_document.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "millrace/text/parse_number.hpp"
#include "text/json_number.hpp"
#include "text/json_parser.hpp"
#include "text/read_file.hpp"

namespace millrace::text {
namespace {

using Json = nlohmann::json;

Json real_number(std::string_view digits) {
  const double value = parse_real(digits);
  if (!std::isfinite(value)) {
    throw JsonProblem{"a number is greater than any that a double can hold"};
  }
  return value;
}

Json whole_number(std::string_view digits) {
  if (const auto value = parse_number<std::uint64_t>(digits)) return *value;
  if (const auto value = parse_number<std::int64_t>(digits)) return *value;
  return real_number(digits);
}

class DocumentBuilder : public JsonHandler {
 public:
  [[nodiscard]] Json take() { return std::move(root_); }

  void null() override { add(nullptr); }
  void boolean(bool value) override { add(value); }
  void number(std::string_view digits, bool whole) override {
    add(whole ? whole_number(digits) : real_number(digits));
  }
  void string(std::string_view text) override { add(std::string{text}); }
  void key(std::string_view text) override {
    const auto [entry, fresh] =
        open_.back()->get_ref<Json::object_t&>().try_emplace(std::string{text});
    if (!fresh) throw JsonProblem{fmt::format("the key '{}' occurs twice", text)};
    slot_ = &entry->second;
  }
  void begin_object() override { open_.push_back(&add(Json::object())); }
  void begin_list() override { open_.push_back(&add(Json::array())); }
  void end() override { open_.pop_back(); }

 private:
  // A pointer in `open_` stays valid: values of an object do not move, and a list gets no new item
  // while its last item is open.
  Json& add(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *slot_ = std::move(value);
    auto& items = open_.back()->get_ref<Json::array_t&>();
    return items.emplace_back(std::move(value));
  }

  Json root_;
  std::vector<Json*> open_;
  Json* slot_ = nullptr;  ///< the value of the key that was read last
};

}  // namespace

nlohmann::json parse_document(std::string_view text, std::string_view origin, std::size_t most) {
  if (text.size() > most) {
    throw std::invalid_argument{
        fmt::format("{}: has {} bytes, more than the {} that are read", origin, text.size(), most)};
  }
  std::string copy{text};
  DocumentBuilder builder;
  try {
    parse_json(copy, builder);
  } catch (const JsonError& error) {
    throw std::invalid_argument{
        fmt::format("{}:{}:{}: {}", origin, error.line(), error.column(), error.what())};
  }
  return builder.take();
}

std::string read_document(const std::filesystem::path& file) {
  try {
    return read_file(file, kLongestDocument);
  } catch (const FileProblem& problem) {
    throw std::invalid_argument{fmt::format("{}: {}", file.string(), problem.what())};
  }
}

}  // namespace millrace::text
