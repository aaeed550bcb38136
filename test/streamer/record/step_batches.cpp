#include <rapidcheck.h>

#include "millrace/streamer/step_batch.hpp"
#include "test/support/catch.hpp"

namespace millrace {

TEST_CASE("a batch has the rows that were added, and its commit counts them", "[record]") {
  CHECK(rc::check([] {
    const auto numbers = *rc::gen::arbitrary<std::vector<float>>();
    const auto keys = *rc::gen::arbitrary<std::vector<std::int64_t>>();
    StepBatch batch;
    for (const std::int64_t key : keys) {
      batch.add({.version = {1, 2}, .table = 9, .row = key, .weights = numbers});
    }
    RC_ASSERT(batch.size() == keys.size());
    RC_ASSERT(batch.commit.rows == keys.size());
    RC_ASSERT(batch.bytes() == keys.size() * record_bytes(numbers.size()));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const RowRecord parsed = parse_record(batch.record(i)).row, seen = batch.row(i);
      RC_ASSERT(seen.row == keys[i]);
      RC_ASSERT(seen.table == 9U);
      RC_ASSERT(seen.weights.data() == parsed.weights.data());
      RC_ASSERT(seen.weights.size() == numbers.size());
      RC_ASSERT(seen.state.empty());
    }
  }));
}

}  // namespace millrace
