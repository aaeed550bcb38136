#include "millrace/streamer/record.hpp"
#include "millrace/streamer/schema.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

using Catch::Matchers::ContainsSubstring;

void refused(const std::string& json, const char* because) {
  CAPTURE(json);
  CHECK_THROWS_AS(parse_stream_schema(json), RecordError);
  CHECK_THROWS_WITH(parse_stream_schema(json), ContainsSubstring(because));
}

std::string with_table(const std::string& table) {
  return R"({"content":"weights","tables":[)" + table + "]}";
}

}  // namespace

TEST_CASE("an invalid schema is refused, and the fault is named", "[record]") {
  refused("", "a schema");
  refused("{", "a schema");
  refused("[]", "a schema");
  refused(R"({"tables":[]})", "content");
  refused(R"({"content":"everything","tables":[]})", "everything");
  refused(R"({"content":"weights"})", "tables");
  refused(R"({"content":"weights","tables":7})", "tables");
  refused(R"({"content":"weights","tables":[],"more":1})", "more");
  refused(with_table(R"({"name":"a","rows":0,"width":1,"state":0})"), "rows");
  refused(with_table(R"({"name":"a","rows":-1,"width":1,"state":0})"), "rows");
  refused(with_table(R"({"name":"a","rows":1e99,"width":1,"state":0})"), "rows");
  refused(with_table(R"({"name":"a","rows":1,"width":0,"state":0})"), "width");
  refused(with_table(R"({"name":"a","rows":1,"width":99999999999,"state":0})"), "width");
  refused(with_table(R"({"name":"a","rows":1,"width":1})"), "state");
  refused(with_table(R"({"name":1,"rows":1,"width":1,"state":0})"), "name");
  refused(with_table(R"({"name":"a","rows":1,"width":1,"state":0},)"
                     R"({"name":"a","rows":1,"width":1,"state":0})"),
          "once");
}

TEST_CASE("a schema with the largest number of rows is read back", "[record]") {
  const StreamSchema schema{.tables = {{.name = "a", .rows = 0x7FFFFFFFFFFFFFFF, .width = 1}}};
  CHECK(parse_stream_schema(to_json(schema)) == schema);
}

TEST_CASE("a schema that could not be read again is refused when it is written", "[record]") {
  StreamSchema schema;
  for (int i = 0; i < 100'000; ++i) {
    schema.tables.push_back({.name = "table." + std::to_string(i), .rows = 1, .width = 1});
  }
  CHECK_THROWS_WITH(to_json(schema), ContainsSubstring("100000 tables"));
  schema.tables.resize(50'000);
  CHECK(parse_stream_schema(to_json(schema)) == schema);
}

TEST_CASE("a table name that is not UTF-8 is refused when the schema is written", "[record]") {
  CHECK_THROWS_AS(to_json({.tables = {{.name = "a\xFF", .rows = 1, .width = 1}}}), RecordError);
}

TEST_CASE("the first difference of two schemas is described in words", "[record]") {
  const StreamSchema one{.tables = {{.name = "a", .rows = 10, .width = 2, .state = 1}}};
  CHECK(difference(one, one).empty());
  StreamSchema other = one;
  other.content = RowContent::ids;
  CHECK_THAT(difference(one, other), ContainsSubstring("weights here and ids there"));
  other = one;
  other.tables[0].rows = 11;
  CHECK_THAT(difference(one, other), ContainsSubstring("'a' of 10 rows"));
  CHECK_THAT(difference(one, other), ContainsSubstring("'a' of 11 rows"));
  other = one;
  other.tables.push_back(other.tables[0]);
  CHECK_THAT(difference(one, other), ContainsSubstring("1 tables here and 2 there"));
}

TEST_CASE("names of row contents are read back, and other names are refused with the list",
          "[record]") {
  for (const RowContent content :
       {RowContent::ids, RowContent::weights, RowContent::weights_and_state}) {
    CHECK(parse_row_content(to_string(content)) == content);
  }
  CHECK_THROWS_WITH(parse_row_content("all"), ContainsSubstring("weights-and-state"));
}

}  // namespace millrace
