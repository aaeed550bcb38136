// The reader of UCI Adult: for any bytes, it returns tables whose ids are in range, or throws a
// DataError.
#include "millrace/pipeline/data/adult.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "test/fuzz/support/require.hpp"

using namespace millrace;
using fuzz::require;

namespace {

void check(const ExampleTable& table) {
  table.schema.check();
  require(table.dense.size() == 6 * table.size() && table.ids.size() == 14 * table.size(),
          "columns are of one length");
  for (std::size_t i = 0; i < table.ids.size(); ++i) {
    const auto rows = static_cast<std::int64_t>(table.schema.sparse[i % 14].rows);
    require(table.ids[i] >= 0 && table.ids[i] < rows, "ids are rows");
  }
  for (const float value : table.dense) require(std::isfinite(value), "features are finite");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{data, data + size};
  const std::size_t half = size / 2;
  for (const auto& [train, test] :
       {std::pair{text, text}, std::pair{text.substr(0, half), text.substr(half)}}) {
    try {
      const AdultData read = read_adult(text_source("train", train), text_source("test", test),
                                        {.buckets = 3, .malformed = {.limit = 2}});
      check(*read.train);
      check(*read.test);
    } catch (const DataError&) {
    }
  }
  return 0;
}
