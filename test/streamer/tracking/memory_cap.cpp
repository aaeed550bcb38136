#include "test/streamer/tracking/tracker_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

// The law: for each cap and chunk size a consumer is refused, or it reads every changed row. Per
// changed row it reads at most the rows of one bit.
TEST_CASE("an accepted consumer reads every changed row, whatever the cap and the chunks") {
  const std::size_t tables = GENERATE(4, 300);
  const std::size_t cap = GENERATE(std::size_t{0}, std::size_t{28}, std::size_t{32},
                                   std::size_t{44}, std::size_t{64}, std::size_t{200});
  std::size_t consumers = 0, refused = 0;
  for (const std::size_t chunk : {600U, 1'200U, 2'400U, 4'800U, 20'000U, 8U << 20}) {
    const std::size_t bytes = tables == 4 ? chunk : chunk + 12'000;
    INFO(cap << " bytes of bitmaps, chunks of " << bytes);
    TrackerRig rig{TrainingCase{.optimizer = OptimizerKind::adam, .data = seed(), .tables = tables},
                   {.memory_cap = cap, .chunk_bytes = bytes}};
    try {
      rig.tracker->add_consumer("c");
      ++consumers;
    } catch (const std::invalid_argument&) {
      ++refused;
      continue;
    }
    CHECK((cap == 0 || rig.tracker->memory() <= cap));
    std::size_t step = 0;
    const std::size_t of_bit = rig.tracker->rows_per_bit("c");
    for (const RowContent content :
         {RowContent::weights_and_state, RowContent::weights, RowContent::ids}) {
      rig.step();
      ++step;
      const auto rows = rig.read("c", content, rig.main);
      CHECK(rig.compare(rows, content) == "");
      for (const auto& row : rig.changed(step)) CHECK(rows.contains(row));
      CHECK(rows.size() <= of_bit * rig.changed(step).size());
    }
  }
  if (cap == 0) CHECK(refused == 0);
  if (cap == 28 && tables == 4) CHECK((refused > 0 && consumers > 0));
}

TEST_CASE("chunks that are too small for a row are refused with the smallest size") {
  const auto make = [](std::size_t bytes) {
    TrackerRig rig{TrainingCase{.optimizer = OptimizerKind::adam}, {.chunk_bytes = bytes}};
  };
  CHECK_THROWS_WITH(make(300),
                    ContainsSubstring("chunks of 300 bytes have no room for a row: 384"));
  CHECK_THROWS_AS(make(383), std::invalid_argument);
  make(384);
}

TEST_CASE("the buffers of reads are outside the cap and no larger than all rows need") {
  TrackerRig rig{TrainingCase{}, {.memory_cap = 100}};
  rig.tracker->add_consumer("c");
  rig.step();
  rig.read("c", RowContent::weights, rig.main);
  const auto bytes_of = [](Allocator& allocator, std::string_view name) {
    const MemoryStatistics statistics = allocator.statistics();
    for (const auto& tag : statistics.tags) {
      if (tag.name == name) return tag.allocated.current;
    }
    return std::size_t{0};
  };
  CHECK(rig.tracker->memory() <= 100);
  CHECK(bytes_of(rig.memory, "tracked rows") > 261 * sizeof(float));
  CHECK(bytes_of(rig.memory, "tracked rows") < 20'000);
  CHECK(bytes_of(rig.pinned, "tracked rows") >= bytes_of(rig.memory, "tracked rows"));
}
