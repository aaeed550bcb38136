#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "millrace/text/json_document.hpp"
#include "millrace/text/nearest.hpp"
#include "test/support/catch.hpp"

namespace {

using millrace::text::nearest;
using millrace::text::parse_document;
using nlohmann::json;
using namespace std::string_literals;

std::string refusal(const std::string& text) {
  try {
    (void)parse_document(text, "x");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("valid JSON gives the same document as another parser") {
  for (const std::string& text : {
           "null"s,
           " [ ] "s,
           "{\"a\": [1, -2, 0, -0, 1.5, 1e3, 2E-2, -0.0e+1], \"b\": {\"c\": true, \"d\": false}}"s,
           "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20ac\\ud83d\\ude00\x7f\""s,
           "[\"\xc3\xa9\", \"\xe2\x82\xac\", \"\xf0\x9f\x98\x80\", \"\"]"s,
           "[18446744073709551615, -9223372036854775808, 18446744073709551616]"s,
           "\xef\xbb\xbf{\"\":\r\n\t1}"s,
           "[1e-1111, 123456789012345678901234567890.5]"s,
       }) {
    INFO(text);
    CHECK(parse_document(text, "x") == json::parse(text));
  }
}

TEST_CASE("JSON that another parser refuses is refused, with line and column") {
  for (const std::string& text : {
           ""s,
           " "s,
           "nul"s,
           "nulll"s,
           "True"s,
           "NaN"s,
           "01"s,
           "-"s,
           "+1"s,
           "1."s,
           ".5"s,
           "1e"s,
           "1e+"s,
           "0x10"s,
           "1 2"s,
           "[1,]"s,
           "[,1]"s,
           "[1 2]"s,
           "[1"s,
           "]"s,
           "{"s,
           "{\"a\"}"s,
           "{\"a\":}"s,
           "{\"a\":1,}"s,
           "{a:1}"s,
           "{'a':1}"s,
           "\""s,
           "\"\\x\""s,
           "\"\\u12\""s,
           "\"\\u12g4\""s,
           "\"\n\""s,
           "\"\0\""s,
           "\"\xff\""s,
           "\"\xc0\x80\""s,
           "\"\xed\xa0\x80\""s,
           "\"\xf4\x90\x80\x80\""s,
           "\"\xe2\x82\""s,
           "\"\\ud800\""s,
           "\"\\ud800\\u0041\""s,
           "\"\\udc00\""s,
           "/* */ 1"s,
           "{\"a\":1 \"b\":2}"s,
           "\x01"s,
           "[1}"s,
       }) {
    INFO(text);
    CHECK_FALSE(json::accept(text));
    CHECK(refusal(text).starts_with("x:1:"));
  }
}

TEST_CASE("valid JSON with one byte changed is accepted only if another parser accepts it") {
  const std::string valid =
      "{\"a\": [1, -2.5e+10, \"x\\u00e9\\ud83d\\ude00\", null], \"b\": {\"c\": true}}";
  for (std::size_t at = 0; at < valid.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string text = valid;
      text[at] = static_cast<char>(value);
      const bool accepted = refusal(text).empty();
      if (accepted) CHECK(parse_document(text, "x") == json::parse(text));
      // The other parser accepts a key twice in an object. Ours refuses it.
      if (!accepted && json::accept(text)) CHECK(refusal(text).find("twice") != std::string::npos);
      if (accepted) CHECK(json::accept(text));
    }
  }
}

TEST_CASE("a zero byte does not end a document") { CHECK_FALSE(refusal("1\0"s).empty()); }

TEST_CASE("a refusal says what was found and what is expected, with line and column") {
  CHECK(
      refusal("{\n  \"a\": 1,\n}") ==
      "x:3:1: this is not JSON: found '}' where a key must stand: no comma follows the last entry");
  CHECK(
      refusal("[1,\n 2,\n]") ==
      "x:3:1: this is not JSON: found ']' where a value must stand: no comma follows the last one");
  CHECK(refusal("{'a': 1}") ==
        "x:1:2: this is not JSON: found a single quote where a key in double quotes must stand");
  CHECK(refusal("[Infinity]") ==
        "x:1:2: this is not JSON: found 'Infinity' where a value must stand");
  CHECK(refusal("[1]]") == "x:1:4: this is not JSON: found ']' where the document must end");
  CHECK(refusal("[\"a\nb\"]") ==
        "x:1:4: this is not JSON: found the byte 0x0a where a string goes on or ends with a quote");
  CHECK(refusal("[1, 1e1111]") == "x:1:5: a number is greater than any that a double can hold");
  CHECK(refusal("{\"a\":1,\n\"a\":2}") == "x:2:1: the key 'a' occurs twice");
}

TEST_CASE("the nearest name has the fewest changed letters, if only few are changed") {
  const std::vector<std::string> known{"batch_size", "num_batches", "layers"};
  CHECK(nearest("batch_sise", known) == "batch_size");
  CHECK(nearest("layer", known) == "layers");
  CHECK(nearest("--htlm", {"--help", "--html"}) == "--html");  // two letters are swapped
  CHECK(nearest("explian", {"explain", "replay"}) == "explain");
  CHECK(nearest("something", known).empty());
  CHECK(nearest(std::string(10'000'000, 'x'), known).empty());
}
