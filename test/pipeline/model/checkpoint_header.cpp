#include "model/checkpoint_header.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "test/support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using millrace::model::parse_checkpoint_header;
using Json = nlohmann::json;

namespace {

constexpr std::uint64_t kPayload = 10 * 4 + 8 + 3 * 4 + 8;

Json valid() {
  return {{"model", "{}"},
          {"data", "some"},
          {"seed", 1},
          {"steps", 2},
          {"batch_size", 3},
          {"position", {{"epoch", 4}, {"batch", 5}}},
          {"stream", ""},
          {"tensors", {{{"name", "a"}, {"size", 10}}, {{"name", "b"}, {"size", 3}}}},
          {"counters", {{{"name", "c"}, {"value", 7}}}}};
}

std::string refusal(const std::string& text, std::uint64_t payload = kPayload) {
  try {
    (void)parse_checkpoint_header(text, payload);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_with(const char* pointer, const Json& value) {
  Json json = valid();
  json[Json::json_pointer{pointer}] = value;
  return refusal(json.dump());
}

}  // namespace

TEST_CASE("a checkpoint's header is read, also one without a stream") {
  const auto parsed = parse_checkpoint_header(valid().dump(), kPayload);
  CHECK(parsed.header.batch_size == 3);
  CHECK(parsed.header.position == millrace::BatchPosition{4, 5});
  CHECK(parsed.tensors[1].name == "b");
  CHECK(parsed.counters[0].number == 7);
  Json older = valid();
  older.erase("stream");
  CHECK(refusal(older.dump()) == "accepted");
}

TEST_CASE("a header with a missing key or a value of the wrong type is refused with the key") {
  for (const char* const key :
       {"model", "data", "seed", "steps", "batch_size", "position", "tensors", "counters"}) {
    Json json = valid();
    json.erase(key);
    CHECK(refusal(json.dump()) == "the header: '" + std::string{key} + "' is missing");
    CHECK_THAT(refusal_with(("/" + std::string{key}).c_str(), nullptr),
               ContainsSubstring("the header: '" + std::string{key} + "' is null, but must be"));
  }
  const std::string whole = ", but must be a whole number from 0 to 18446744073709551615";
  CHECK(refusal_with("/seed", -1) == "the header: 'seed' is -1" + whole);
  CHECK(refusal_with("/position/batch", "5") == "the header: 'position.batch' is \"5\"" + whole);
  CHECK(refusal_with("/tensors/0/size", 1.5) == "the header: 'tensors[0].size' is 1.5" + whole);
  CHECK(refusal_with("/tensors/0", 5) ==
        "the header: 'tensors[0]' is 5, but must be an object { ... }");
  CHECK(refusal_with("/stream", 5) == "the header: 'stream' is 5, but must be a text");
  CHECK(refusal("[]") == "the header: the document is [], but must be an object { ... }");
}

TEST_CASE("a checkpoint whose tensors do not fill the file exactly is refused") {
  CHECK(refusal(valid().dump(), kPayload) == "accepted");
  CHECK(refusal(valid().dump(), kPayload + 1) == "1 bytes at the end belong to no tensor");
  CHECK_THAT(refusal(valid().dump(), kPayload - 1), ContainsSubstring("more than the file has"));
  // In 64 bits, this size times 4 bytes wraps around to 40.
  CHECK_THAT(refusal_with("/tensors/0/size", (std::uint64_t{1} << 62) + 10),
             ContainsSubstring("'a' has 4611686018427387914 numbers"));
}

TEST_CASE("a header that is nested deeply or is too long is refused") {
  CHECK_THAT(refusal(std::string(100'000, '[')), ContainsSubstring("nested more than 64 deep"));
  std::string text = valid().dump();
  text += std::string(millrace::model::kMostHeader - text.size(), ' ');
  CHECK(refusal(text) == "accepted");
  CHECK_THAT(refusal(text + " "), ContainsSubstring("more than the 16777216 that are read"));
}
