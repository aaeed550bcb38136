#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "millrace/streamer/record.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

using Bytes = std::vector<std::byte>;

rc::Gen<Version> any_version() {
  return rc::gen::construct<Version>(rc::gen::arbitrary<std::uint64_t>(),
                                     rc::gen::arbitrary<std::uint64_t>());
}

/// Floats of every bit pattern, including NaN with any payload.
rc::Gen<std::vector<float>> any_floats() {
  return rc::gen::map(rc::gen::arbitrary<std::vector<std::uint32_t>>(),
                      [](const std::vector<std::uint32_t>& bits) {
                        std::vector<float> floats(bits.size());
                        if (!bits.empty()) {
                          std::memcpy(floats.data(), bits.data(), bits.size() * sizeof(float));
                        }
                        return floats;
                      });
}

StepCommit any_commit() {
  StepCommit commit;
  commit.version = *any_version();
  commit.after = *any_version();
  if (commit.after > commit.version) std::swap(commit.after, commit.version);
  if (commit.after == commit.version) commit = {.version = {1, 0}, .after = {}};
  commit.ranks = *rc::gen::inRange<std::uint32_t>(1, 5000);
  commit.rank = *rc::gen::inRange<std::uint32_t>(0, commit.ranks);
  commit.parts = *rc::gen::inRange<std::uint32_t>(1, 100);
  commit.part = *rc::gen::inRange<std::uint32_t>(0, commit.parts);
  commit.rows = *rc::gen::arbitrary<std::uint64_t>();
  commit.missing = *rc::gen::arbitrary<std::uint64_t>();
  commit.wall_time_ms = *rc::gen::arbitrary<std::uint64_t>();
  return commit;
}

std::string any_name() {
  const auto letters = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
  return letters + *rc::gen::element<std::string>("", "\xC3\xA9", "\xE6\xB0\xB4", "\\u0000");
}

StreamSchema any_schema() {
  StreamSchema schema;
  schema.content =
      *rc::gen::element(RowContent::ids, RowContent::weights, RowContent::weights_and_state);
  const int tables = *rc::gen::inRange(0, 300);
  for (int i = 0; i < tables; ++i) {
    schema.tables.push_back({.name = any_name() + std::to_string(i),
                             .rows = *rc::gen::inRange<std::uint64_t>(1, ~0ULL >> 1U),
                             .width = *rc::gen::inRange<std::uint32_t>(1, 1U << 20U),
                             .state = *rc::gen::inRange<std::uint32_t>(0, 1U << 20U)});
  }
  return schema;
}

/// One record of each kind. Their numbers leave no byte of a field zero only by chance.
std::vector<Bytes> one_of_each() {
  const float numbers[] = {1.5F, -2.25F, 1e-30F};
  Bytes row, ids, commit, schema, position;
  append_record(row, RowRecord{.version = {3, 0x1122334455667788},
                               .table = 200,
                               .row = 0x123456789A,
                               .weights = std::span{numbers}.first(2),
                               .state = std::span{numbers}.last(1)});
  append_record(ids, RowRecord{.version = {1, 0}, .row = 1});
  append_record(commit, StepCommit{.version = {3, 9}, .after = {3, 8}, .rank = 1, .ranks = 2});
  append_record(schema, StreamSchema{.tables = {{.name = "t", .rows = 9, .width = 2}}}, {3, 0});
  append_position(position, "0:17,1:4", {1, 6});
  return {row, ids, commit, schema, position};
}

bool is_refused(const Bytes& bytes) {
  try {
    (void)parse_record(bytes);
    return false;
  } catch (const RecordError&) {
    return true;
  }
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

}  // namespace

TEST_CASE("a row is read back from its record, bit by bit", "[record]") {
  CHECK(rc::check([] {
    const auto weights = *any_floats(), state = *any_floats();
    const RowRecord row{.version = *any_version(),
                        .table = *rc::gen::arbitrary<std::uint32_t>(),
                        .row = *rc::gen::arbitrary<std::int64_t>(),
                        .weights = weights,
                        .state = state};
    Bytes bytes;
    append_record(bytes, row);
    RC_ASSERT(bytes.size() == record_bytes(weights.size() + state.size()));
    const Record read = parse_record(bytes);
    RC_ASSERT(read.kind == RecordKind::row);
    RC_ASSERT(read.bytes == bytes.size());
    RC_ASSERT(read.version == row.version);
    RC_ASSERT(read.row.version == row.version);
    RC_ASSERT(read.row.table == row.table);
    RC_ASSERT(read.row.row == row.row);
    RC_ASSERT(same_bits(read.row.weights, weights));
    RC_ASSERT(same_bits(read.row.state, state));
  }));
}

TEST_CASE("a commit is read back from its record", "[record]") {
  CHECK(rc::check([] {
    const StepCommit commit = any_commit();
    Bytes bytes;
    append_record(bytes, commit);
    const Record read = parse_record(bytes);
    RC_ASSERT(read.kind == RecordKind::commit);
    RC_ASSERT(read.commit == commit);
    RC_ASSERT(read.version == commit.version);
    RC_ASSERT(read.bytes == bytes.size());
  }));
}

TEST_CASE("a commit of the older format without a time is read", "[record]") {
  constexpr std::string_view kBefore =
      "00000000000000030000000000000009880000000201000000000000000000000000000000000000000000000000"
      "00000300000000000000080000000000000001000000020000000500000000000000060000000000000001000000"
      "0300000007000000000000000b000000000000000200000000000000040000000000000019244d5747b2a3b7";
  Bytes bytes;
  for (std::size_t i = 0; i < kBefore.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(std::string{kBefore.substr(i, 2)}, {}, 16)));
  }
  StepCommit commit{.version = {3, 9},
                    .after = {3, 8},
                    .step = 7,
                    .rank = 1,
                    .ranks = 2,
                    .rows = 5,
                    .missing = 6,
                    .base = {2, 4},
                    .answers = 11,
                    .part = 1,
                    .parts = 3};
  CHECK(parse_record(bytes).commit == commit);
  commit.wall_time_ms = 1'764'000'000'123;
  Bytes timed;
  append_record(timed, commit);
  CHECK(timed.size() == bytes.size());  // readers of older commits can read it
  CHECK(parse_record(timed).commit == commit);
}

TEST_CASE("a schema is read back from its record", "[record]") {
  CHECK(rc::check([] {
    const StreamSchema schema = any_schema();
    Bytes bytes;
    append_record(bytes, schema, {7, 1});
    const Record read = parse_record(bytes);
    RC_ASSERT(read.kind == RecordKind::schema);
    RC_ASSERT(read.schema == schema);
    RC_ASSERT(parse_stream_schema(to_json(schema)) == schema);
  }));
}

TEST_CASE("a position of any bytes is read back from its record", "[record]") {
  CHECK(rc::check([](const std::string& text) {
    Bytes bytes;
    append_position(bytes, text, {4, 4});
    const Record read = parse_record(bytes);
    RC_ASSERT(read.kind == RecordKind::position);
    RC_ASSERT(read.position == text);
    RC_ASSERT(read.version == (Version{4, 4}));
  }));
}

TEST_CASE("records are read one after another, each from the end of the previous one", "[record]") {
  Bytes all;
  const auto records = one_of_each();
  for (const Bytes& record : records) all.insert(all.end(), record.begin(), record.end());
  std::span<const std::byte> left{all};
  std::vector<RecordKind> kinds;
  while (!left.empty()) {
    REQUIRE(record_length(left) == records[kinds.size()].size());
    const Record record = parse_record(left);
    kinds.push_back(record.kind);
    left = left.subspan(record.bytes);
  }
  CHECK(kinds == std::vector{RecordKind::row, RecordKind::row, RecordKind::commit,
                             RecordKind::schema, RecordKind::position});
}

TEST_CASE("the bytes of a record's version compare as the version does", "[record]") {
  CHECK(rc::check([] {
    Bytes a, b;
    const Version of_a = *any_version(), of_b = *any_version();
    append_record(a, RowRecord{.version = of_a});
    append_record(b, RowRecord{.version = of_b});
    const int order = std::memcmp(a.data(), b.data(), 16);
    RC_ASSERT((order < 0) == (of_a < of_b));
    RC_ASSERT((order == 0) == (of_a == of_b));
    RC_ASSERT(record_version(a) == of_a);
  }));
}

TEST_CASE("a record with any one bit of any byte changed is refused", "[record]") {
  for (const Bytes& record : one_of_each()) {
    for (std::size_t i = 0; i < record.size(); ++i) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        Bytes changed = record;
        changed[i] ^= static_cast<std::byte>(1U << bit);
        CAPTURE(i, bit);
        CHECK(is_refused(changed));
      }
    }
  }
}

TEST_CASE("a record with any one byte changed to any other value is refused", "[record]") {
  for (const Bytes& record : one_of_each()) {
    std::size_t taken = 0;
    for (std::size_t i = 0; i < record.size(); ++i) {
      Bytes changed = record;
      for (unsigned value = 0; value < 256; ++value) {
        changed[i] = static_cast<std::byte>(value);
        if (changed[i] != record[i] && !is_refused(changed)) ++taken;
      }
    }
    CHECK(taken == 0);
  }
}

TEST_CASE("a record that is truncated anywhere is refused", "[record]") {
  for (const Bytes& record : one_of_each()) {
    for (std::size_t length = 0; length < record.size(); ++length) {
      // Memory of exactly this length, so that a sanitizer finds reads beyond its end.
      const Bytes cut(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(length));
      CAPTURE(length);
      CHECK(is_refused(cut));
    }
  }
}

TEST_CASE("a record is read without the bytes that follow it", "[record]") {
  for (Bytes record : one_of_each()) {
    const std::size_t length = record.size();
    record.insert(record.end(), 17, std::byte{0xEE});
    CHECK(parse_record(record).bytes == length);
  }
}

TEST_CASE("a row is checked against the tables of its schema", "[record]") {
  StreamSchema schema{.content = RowContent::weights_and_state,
                      .tables = {{.name = "a", .rows = 10, .width = 2, .state = 1}}};
  const float numbers[3] = {};
  RowRecord row{
      .row = 9, .weights = std::span{numbers}.first(2), .state = std::span{numbers}.first(1)};
  CHECK_NOTHROW(check_row(row, schema));
  const auto refused = [&](RowRecord changed, const char* because) {
    CHECK_THROWS_WITH(check_row(changed, schema), Catch::Matchers::ContainsSubstring(because));
  };
  refused({.table = 1, .row = 9, .weights = row.weights, .state = row.state},
          "table 1, but the schema has 1 tables");
  refused({.row = 10, .weights = row.weights, .state = row.state}, "row 10 of table 'a'");
  refused({.row = -1, .weights = row.weights, .state = row.state}, "row -1 of table 'a'");
  refused({.row = 9, .weights = row.state, .state = row.state}, "1 and 1 numbers");
  refused({.row = 9, .weights = row.weights}, "2 and 0 numbers");
  schema.content = RowContent::weights;
  refused(row, "2 and 1 numbers");
  CHECK_NOTHROW(check_row({.row = 9, .weights = row.weights}, schema));
  schema.content = RowContent::ids;
  refused(row, "0 and 0 belong");
  CHECK_NOTHROW(check_row({.row = 9}, schema));
}

TEST_CASE("a row that is wider than the largest record is refused before it is written",
          "[record]") {
  const std::vector<float> numbers(kLargestRecord / sizeof(float));
  Bytes bytes;
  CHECK_THROWS_AS(append_record(bytes, RowRecord{.weights = numbers}), RecordError);
  CHECK(bytes.empty());
}

}  // namespace millrace
