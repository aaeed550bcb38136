#include "test/fuzz/commands/documents.hpp"

#include <vector>

#include "test/support/gzip.hpp"
#include "test/support/pickle_writer.hpp"

namespace millrace::fuzz {
namespace {

using Json = nlohmann::json;
using namespace std::string_literals;

/// A placeholder for a value in a document. Text that a JSON writer cannot write replaces it later.
constexpr const char* kMark = "@odd@";

const std::vector<std::string>& odd_texts() {
  static const std::vector<std::string> all = {
      "18446744073709551615",
      "18446744073709551616",
      "-9223372036854775809",
      "9223372036854775807",
      "1e1111",
      "-1e1111",
      "1e-1111",
      "NaN",
      "Infinity",
      "01",
      "+1",
      "1.",
      ".5",
      "0x10",
      "'a'",
      "nul",
      "\"\\ud800\"",
      "\"\\u12\"",
      "\"\\x\"",
      "\"\xff\xfe\"",
      "\"\xc0\x80\"",
      "\"\n\"",
      "\"" + std::string(100'000, 'x') + "\"",
      std::string(100'000, '9'),
      "0." + std::string(100'000, '9'),
      std::string(60, '[') + std::string(60, ']'),
      std::string(100'000, '['),
      std::string(100'000, '[') + std::string(100'000, ']'),
      [] {
        std::string text;
        for (int i = 0; i < 50'000; ++i) text += "{\"a\":";
        return text;
      }(),
      "[" +
          [] {
            std::string text;
            for (int i = 0; i < 50'000; ++i) text += "[],";
            return text;
          }() +
          "[]]",
      "{\"a\":1,\"a\":2}",
      "/* nothing */ 1",
      "1,",
      "",
  };
  return all;
}

Json odd_value(Draws& draws) {
  static const std::vector<Json> all = {nullptr,
                                        true,
                                        false,
                                        -1,
                                        0,
                                        1,
                                        -0.5,
                                        1e308,
                                        -1e308,
                                        1e-320,
                                        INT64_MIN,
                                        UINT64_MAX,
                                        "",
                                        "x\0y"s,
                                        std::string(300, 'a'),
                                        Json::array(),
                                        Json::object(),
                                        Json{{"a", 1}},
                                        Json::array({1, "a", nullptr}),
                                        "1e400",
                                        "9223372036854775808"};
  return draws.one_in(2) ? Json(kMark) : draws.of(all);
}

/// Collects all values of a document.
void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (!value.is_structured()) return;
  for (Json& item : value) collect(item, all);
}

void change_object(Json& object, Draws& draws) {
  std::vector<std::string> keys;
  for (const auto& [key, unused] : object.items()) keys.push_back(key);
  if (keys.empty() || draws.one_in(3)) {
    object[draws.one_in(2) ? "a key of tomorrow" : std::string(500, 'k')] = odd_value(draws);
    return;
  }
  const std::string key = draws.of(keys);
  const Json value = object[key];
  if (draws.one_in(2)) object.erase(key);
  if (draws.one_in(2)) object[key.substr(0, key.size() - 1)] = value;  // like a typing error
}

void change(Json& document, Draws& draws) {
  std::vector<Json*> all;
  collect(document, all);
  Json& value = *draws.of(all);
  if (value.is_object() && draws.one_in(2)) return change_object(value, draws);
  if (value.is_array() && !value.empty() && draws.one_in(2)) {
    const Json item = value[draws.below(value.size())];
    value.push_back(item);
    return;
  }
  value = odd_value(draws);
}

Json changed(Json document, Draws& draws) {
  for (std::size_t left = draws.below(4); left > 0; --left) change(document, draws);
  return document;
}

template <typename Odd>
std::string with_odd(std::string text, const std::string& mark, const Odd& odd) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    const std::string value = odd();
    text.replace(at, mark.size(), value);
    at += value.size();
  }
  return text;
}

const std::vector<std::string>& odd_opcodes() {
  static const std::vector<std::string> all = {
      "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"s,
      "\x8a\xff"s + std::string(255, '\x7f'),
      "\x8b\x00\x00\x01\x00"s + std::string(65536, '\x01'),
      "\x8b\xff\xff\xff\xff"s,
      "\x8a\x00"s,
      "G\x7f\xf8\x00\x00\x00\x00\x00\x00"s,
      "G\x7f\xf0\x00\x00\x00\x00\x00\x00"s,
      "X\xff\xff\xff\xff"s,
      "X\x02\x00\x00\x00\xff\xfe"s,
      "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"s,
      "cos\nsystem\n"s,
      "cos\nsystem\nX\x02\x00\x00\x00ls\x85R"s,
      "\x8f"s,
      "(K\x01\x91"s,
      "\x96\x01\x00\x00\x00\x00\x00\x00\x00x"s,
      "\x96\xff\xff\xff\xff\xff\xff\xff\xff"s,
      "]q\x00h\x00"s + "a"s,
      "]q\x00](h\x00h\x00h\x00h\x00"s + "e"s,
      "h\xff"s,
      "j\xff\xff\xff\xff"s,
      "Nr\xff\xff\xff\xff"s,
      "(" + std::string(100'000, 'N') + "t",
      "(" + std::string(100'000, ']') + "t",
      "(" + std::string(100'000, '}') + "t",
      std::string(100'000, '('),
      std::string(1'000, ']') + std::string(999, 'a'),
      std::string(60, ']') + std::string(59, 'a'),
      "N" + std::string(100'000, '\x94'),
      "}(NK\x01\x88K\x02)K\x03]K\x04u"s,
      "\x95\xff\xff\xff\xff\xff\xff\xff\xffN"s,
      "}(X\x01\x00\x00\x00"s + "au",
      "\x97"s,
      ""s,
      "."s,
  };
  return all;
}

}  // namespace

std::string damaged(std::string bytes, Draws& draws) {
  if (bytes.empty() || !draws.one_in(3)) return bytes;
  const std::size_t at = draws.below(bytes.size());
  switch (draws.below(5)) {
    case 0:
      return bytes.substr(0, at);
    case 1:
      bytes[at] = static_cast<char>(draws.below(256));
      return bytes;
    case 2:
      return bytes.insert(at, draws.bytes(1 + draws.below(4)));
    case 3:
      return bytes.insert(at, bytes.substr(draws.below(bytes.size()), 1 + draws.below(200)));
    default:
      return bytes.erase(at, 1 + draws.below(200));
  }
}

std::string hostile_json(Json document, Draws& draws) {
  std::string text =
      changed(std::move(document), draws)
          .dump(draws.one_in(2) ? 2 : -1, ' ', false, Json::error_handler_t::replace);
  text = with_odd(std::move(text), "\"" + std::string{kMark} + "\"",
                  [&] { return draws.of(odd_texts()); });
  if (draws.one_in(20)) text = "\xef\xbb\xbf" + text;
  if (draws.one_in(20)) text += std::string(std::size_t{5} << 20, ' ');
  return damaged(std::move(text), draws);
}

std::string hostile_pickle(Json document, Draws& draws) {
  // The plain writer has no opcode for integers beyond 63 bits.
  Json all = changed(std::move(document), draws);
  std::vector<Json*> values;
  collect(all, values);
  for (Json* const value : values) {
    if (*value == UINT64_MAX) *value = kMark;
  }
  std::string bytes = with_odd(test::to_pickle(all), test::to_pickle_body(kMark),
                               [&] { return draws.of(odd_opcodes()); });
  return damaged(std::move(bytes), draws);
}

std::string hostile_lines(const std::string& valid, char separator, Draws& draws) {
  static const std::vector<std::string> odd = {"",
                                               "-1",
                                               "18446744073709551616",
                                               "9223372036854775807",
                                               "-9223372036854775809",
                                               "1e400",
                                               "0xffffffffffffffff",
                                               "nan",
                                               " ",
                                               "\"",
                                               "\0"s,
                                               "\xff\xfe",
                                               std::string(100'000, '1'),
                                               std::string(100'000, ','),
                                               std::string(100'000, '\t'),
                                               "\r",
                                               "(nil)",
                                               "a",
                                               "00:00:00",
                                               "=1+1"};
  std::vector<std::size_t> ends;  // ends of fields
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == separator || valid[i] == '\n') ends.push_back(i);
  }
  std::string text = valid;
  for (std::size_t left = draws.below(4); left > 0 && ends.size() > 1; --left) {
    const std::size_t field = draws.below(ends.size() - 1);
    const std::size_t begin = ends[field] + 1;
    if (begin > text.size()) continue;
    text.replace(begin, std::min(ends[field + 1] - begin, text.size() - begin), draws.of(odd));
  }
  if (draws.one_in(20)) text += std::string(200'000, '\n');
  if (draws.one_in(20)) text += std::string(2'000'000, 'x');
  return damaged(std::move(text), draws);
}

std::string hostile_gzip(const std::string& bytes, Draws& draws) {
  switch (draws.below(6)) {
    case 0:
      return test::gzipped(bytes) + test::gzipped(bytes);
    case 1:
      return test::gzipped(test::gzipped(bytes));
    case 2: {
      std::string many;
      for (int i = 0; i < 2'000; ++i) many += test::gzipped("");
      return many + test::gzipped(bytes);
    }
    case 3:  // expands to much more than its size
      return test::gzipped(bytes +
                           std::string(std::size_t{80} << 20, bytes.empty() ? 'N' : bytes.back()));
    default:
      return damaged(test::gzipped(bytes), draws);
  }
}

}  // namespace millrace::fuzz
