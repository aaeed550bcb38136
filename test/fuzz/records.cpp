// The reader of the streamer's records: for any bytes, it returns records that lie within them, or
// throws a RecordError. Each input is also read with correct checksums, so that the code after the
// test of the checksum is reached.
#include "test/fuzz/support/records.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "millrace/streamer/record.hpp"

using namespace millrace;
using namespace millrace::fuzz;

namespace {

std::uint32_t touched(std::span<const float> numbers) {
  std::uint32_t sum = 0;
  for (const float& number : numbers) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    sum += bits;
  }
  return sum;
}

/// Checks that a record reads the same after it is written again.
void check(const Record& record) {
  std::vector<std::byte> again;
  switch (record.kind) {
    case RecordKind::row:
      append_record(again, record.row);
      require(touched(record.row.weights) == touched(parse_record(again).row.weights),
              "weights are kept");
      require(touched(record.row.state) == touched(parse_record(again).row.state), "state is kept");
      break;
    case RecordKind::commit:
      append_record(again, record.commit);
      require(parse_record(again).commit == record.commit, "commits are kept");
      break;
    case RecordKind::schema:
      append_record(again, record.schema, record.version);
      require(parse_record(again).schema == record.schema, "schemas are kept");
      break;
    case RecordKind::position:
      append_position(again, record.position, record.version);
      require(parse_record(again).position == record.position, "positions are kept");
      break;
    default:
      require(false, "kinds are known");
  }
  require(again.size() <= record.bytes, "no record takes more than it took");
  require(parse_record(again).version == record.version, "versions are kept");
}

void read_all(std::span<const std::byte> bytes) {
  try {
    while (!bytes.empty()) {
      const Record record = parse_record(bytes);
      require(record.bytes <= bytes.size(), "records lie within their bytes");
      check(record);
      bytes = bytes.subspan(record.bytes);
    }
  } catch (const RecordError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  read_all(bytes);
  mend(bytes);
  read_all(bytes);
  try {
    const std::string_view text{reinterpret_cast<const char*>(data), size};
    const StreamSchema schema = parse_stream_schema(text);
    require(parse_stream_schema(to_json(schema)) == schema, "schemas are kept as JSON");
  } catch (const RecordError&) {
  }
  return 0;
}
