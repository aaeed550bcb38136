#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "test/streamer/capture/capture_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Counts the waits of the thread that constructs it.
class OwnWaits final : public DeviceObserver {
 public:
  explicit OwnWaits(Device& device) : device_(device) { device.add_observer(*this); }
  ~OwnWaits() override { device_.remove_observer(*this); }

  void before(Call call) override {
    if (std::this_thread::get_id() != thread_) return;
    if (call == Call::synchronize_event || call == Call::synchronize_stream ||
        call == Call::synchronize_device) {
      ++waits;
    }
  }
  std::uint64_t waits = 0;

 private:
  Device& device_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

void check_told(CaptureRig& rig) {
  CHECK(rig.flush());
  CHECK(rig.compare() == "");
  CHECK(rig.races() == std::vector<std::string>{});
}

}  // namespace

TEST_CASE("the training thread never waits with a ring, and waits for each copy with sync") {
  const auto mode = GENERATE(from_range(kCaptureModes));
  CaptureRig rig{{.options = {.mode = mode, .slots = 8}, .steps = 6}};
  OwnWaits waits{rig.program_device};
  rig.train();
  const bool itself = mode == CaptureMode::sync || mode == CaptureMode::sync_pageable;
  CHECK((itself ? waits.waits >= 6 : waits.waits == 0));
  if (itself) CHECK(rig.capture->counts().waits >= 3);
  if (mode == CaptureMode::ring) CHECK(rig.capture->counts().waits == 0);
  check_told(rig);
}

TEST_CASE("steps without rows are delivered") {
  CaptureRig rig{{.steps = 1}};
  const RowUpdate nothing{.step = 7, .stream = rig.main, .tables = rig.bags->tables()};
  rig.capture->rows_updated(nothing);
  rig.step();
  CHECK(rig.flush());
  CHECK(rig.receiver.steps == std::vector<std::uint64_t>{7, 1});
}

TEST_CASE("rows that do not fit into a slot are counted and delivered with later steps") {
  const auto mode = GENERATE(from_range(kCaptureModes));
  CaptureRig rig{{.options = {.mode = mode, .slot_bytes = 400}, .steps = 6}};
  rig.train();
  check_told(rig);
  CHECK(rig.capture->counts().overflowed_rows > 0);
  CHECK(rig.capture->counts().dirty_captures > 0);
}

TEST_CASE("a step without a free slot is counted, and its rows are delivered with a later step") {
  CaptureRig rig{{.options = {.slots = 1, .when_full = WhenFull::mark_dirty},
                  .steps = 8,
                  .receive_time = std::chrono::milliseconds{2}}};
  rig.train();
  check_told(rig);
  const CaptureCounts counts = rig.capture->counts();
  CHECK(counts.dropped_steps > 0);
  CHECK(counts.dropped_rows > 0);
  CHECK(counts.waited == Nanoseconds{0});
}

TEST_CASE("a step waits for a slot at most as long as its patience") {
  const auto patience = GENERATE(std::chrono::microseconds{300}, std::chrono::microseconds{50'000});
  CaptureRig rig{{.options = {.slots = 1, .when_full = WhenFull::block, .patience = patience},
                  .steps = 4,
                  .receive_time = std::chrono::milliseconds{5}}};
  rig.train();
  const CaptureCounts counts = rig.capture->counts();
  const bool patient = patience > std::chrono::milliseconds{5};
  CHECK((counts.dropped_steps == 0) == patient);
  CHECK(counts.waits > 0);
  CHECK(counts.waited <=
        static_cast<int>(counts.waits) * (patience + std::chrono::microseconds{200}));
  check_told(rig);
}

TEST_CASE("rows of tables that a capture skips are counted and not delivered") {
  CaptureRig rig{{.options = {.skipped_tables = {"t1"}}, .steps = 6}};
  rig.train();
  CHECK(rig.flush());
  rig.capture->mark_all_dirty();
  CHECK(rig.flush());
  CHECK(rig.capture->counts().skipped_rows > 0);
  std::size_t delivered = 0;
  rig.receiver.sink.read([&](const RowRecord& row) {
    CHECK(row.table != 4);
    ++delivered;
  });
  CHECK(delivered == 40 + 1 + 70);
}

TEST_CASE("marked rows are delivered once, even if they did not change") {
  CaptureRig rig{{.options = {.content = RowContent::weights_and_state}, .steps = 2}};
  const std::vector<TableRow> rows{{3, 7}, {4, 151}, {3, 7}, {4, 12}, {9, 1}, {4, 300}, {3, -1}};
  CHECK(rig.capture->mark_dirty(rows) == 1);
  CHECK(rig.capture->dirty());
  CHECK(rig.flush());
  CHECK(rig.receiver.rows == 2);  // the others are duplicates or of other sources
  CHECK(rig.capture->mark_all_dirty() == 2);
  rig.train();
  CHECK(rig.flush());
  CHECK(rig.receiver.rows >= 2 + 40 + 150 + 1 + 70);
  CHECK(rig.compare() == "");
}

TEST_CASE("marks on more than a quarter of the rows mark all rows") {
  CaptureRig rig{{.options = {.content = RowContent::weights_and_state}, .steps = 2}};
  const std::vector<TableRow> rows(1000, {3, 7});
  for (std::uint64_t call = 1; call <= 5; ++call) CHECK(rig.capture->mark_dirty(rows) == call);
  CHECK(rig.flush());
  CHECK(rig.receiver.rows == 40 + 150 + 1 + 70);
  CHECK(rig.capture->mark_dirty(rows) == 6);
  CHECK(rig.flush());
  CHECK(rig.receiver.rows == 40 + 150 + 1 + 70 + 1);
}

TEST_CASE("the link carries at most 5% more bytes than the changed rows") {
  const auto mode = GENERATE(CaptureMode::ring, CaptureMode::mapped);
  const std::vector<TableConfig> tables{{"t", 20'000, 64, Pooling::sum, {"f"}}};
  ModelBench bench;
  CachingAllocator pinned{bench.ordered, bench.pinned, Policy::pinned()};
  EmbeddingBags bags{bench.context, tables, {}};
  VirtualMachine& machine = bench.machine;
  CheckingObserver checking;
  const CaptureCase what{.options = {.mode = mode}};
  SinkReceiver receiver{what, machine.executor(), checking};
  RowCapture capture{
      {bags, 0, {0}}, {bench.context, pinned, machine.executor(), receiver}, what.options};
  StreamSchema schema;
  schema.tables = capture.tables();
  receiver.sink.begin(schema);
  HostBags batch{.features = {"f"}, .batch = 1};
  batch.bags = {{{}}};
  for (std::int64_t id = 0; id < 10'000; ++id) batch.bags[0][0].push_back(2 * id);
  const BatchTensor gradient = bench.memory.upload(std::vector<float>(64, 1));
  bags.update(bench.memory.upload(batch), nullptr, {gradient.as<float>().data(), 64, 0},
              bench.main);
  CHECK(capture.flush(bench.main, Nanoseconds::max()));
  const CaptureCounts counts = capture.counts();
  CHECK(counts.rows == 10'000);
  CHECK(counts.changed_bytes == 10'000 * 64 * sizeof(float));
  CHECK(static_cast<double>(counts.link_bytes) < 1.05 * static_cast<double>(counts.changed_bytes));
}

TEST_CASE("memory of a capture has its own tags and is freed with the capture") {
  CaptureRig rig{{.options = {.slots = 3, .slot_bytes = 20'000}, .steps = 2}};
  const auto bytes_of = [](Allocator& allocator, std::string_view name) {
    const MemoryStatistics statistics = allocator.statistics();
    for (const auto& tag : statistics.tags) {
      if (tag.name == name) return tag.allocated.current;
    }
    return std::size_t{0};
  };
  CHECK(bytes_of(rig.memory, "captured rows") >= 2 * 10'000);  // two slots; more on demand
  CHECK(bytes_of(rig.pinned, "captured rows") == bytes_of(rig.memory, "captured rows"));
  CHECK(bytes_of(rig.memory, "dirty rows") >= 261 / 8);
  rig.train();
  rig.capture.reset();
  rig.main.synchronize();
  CHECK(bytes_of(rig.memory, "captured rows") == 0);
  CHECK(bytes_of(rig.pinned, "captured rows") == 0);
  CHECK(bytes_of(rig.memory, "dirty rows") == 0);
  CHECK(rig.races() == std::vector<std::string>{});
}

TEST_CASE("slots are created as the host runs ahead, up to the maximum") {
  const auto most = GENERATE(std::size_t{1}, std::size_t{4}, std::size_t{40});
  CaptureRig rig{{.options = {.slots = most, .slot_bytes = 20'000, .patience = 1h}, .steps = 12}};
  const auto bytes = [&] {
    for (const auto& tag : rig.memory.statistics().tags) {
      if (tag.name == "captured rows") return tag.allocated.current;
    }
    return std::size_t{0};
  };
  const std::size_t first = bytes();
  rig.train();
  const std::size_t of_slot = first / std::min<std::size_t>(most, 2);
  CHECK(bytes() <= most * of_slot + 1024);  // and the layout of the tables
  CHECK(rig.capture->counts().dropped_steps == 0);
  if (most == 40) CHECK(rig.capture->counts().waits == 0);
  CHECK(rig.flush());
  CHECK(rig.compare() == "");
  CHECK(rig.races() == std::vector<std::string>{});
}

TEST_CASE("hundreds of tables are delivered in their order") {
  const auto mode = GENERATE(from_range(kCaptureModes));
  for (std::uint64_t i = 0; i < 2; ++i) {
    CaptureCase what = draw_case(mode, seed() + i);
    what.tables = 300;
    what.options.slot_bytes = 16'000;
    INFO(what.name());
    CaptureRig rig{what};
    rig.train();
    check_told(rig);
  }
}

TEST_CASE("invalid capture options are refused") {
  const auto make = [](CaptureOptions options) {
    CaptureRig rig{{.options = options, .steps = 0}};
  };
  CHECK_THROWS_WITH(make({.slots = 0}), ContainsSubstring("at least one slot"));
  CHECK_THROWS_WITH(make({.slot_bytes = 100}), ContainsSubstring("no room for a row"));
  CHECK_THROWS_WITH(make({.skipped_tables = {"x"}}),
                    ContainsSubstring("the table 'x' to skip does not exist"));
  CHECK_THROWS_WITH(parse_capture_mode("fast"), ContainsSubstring("sync, sync-pageable, mapped"));
  for (const CaptureMode mode : kCaptureModes) CHECK(parse_capture_mode(to_string(mode)) == mode);
}

TEST_CASE("a cost-only capture reports a modeled number of rows and delivers none") {
  ModelBench bench;
  ModelContext context{bench.allocator, bench.main, true};
  CachingAllocator pinned{bench.ordered, bench.pinned, Policy::pinned()};
  EmbeddingBags bags{context, {{"t", 20'000, 64, Pooling::sum, {"f"}}}, {}};
  CheckingObserver checking;
  const std::size_t slot_bytes = GENERATE(std::size_t{64} << 20, std::size_t{500'000});
  const CaptureCase what{.options = {.slot_bytes = slot_bytes}};
  SinkReceiver receiver{what, bench.machine.executor(), checking};
  RowCapture capture{
      {bags, 0, {0}}, {context, pinned, bench.machine.executor(), receiver}, what.options};
  receiver.sink.begin({.tables = capture.tables()});
  HostBags batch{.features = {"f"}, .batch = 1};
  batch.bags = {{std::vector<std::int64_t>(5'000)}};
  const BatchTensor gradient = bench.memory.upload(std::vector<float>(64));
  const KeyedJaggedTensor ids = bench.memory.upload(batch);
  for (int step = 0; step < 3; ++step) {
    bags.update(ids, nullptr, {gradient.as<float>().data(), 64, 0}, bench.main);
  }
  CHECK(capture.flush(bench.main, Nanoseconds::max()));
  const CaptureCounts counts = capture.counts();
  CHECK(receiver.rows == 0);
  CHECK(receiver.modeled == counts.rows);
  CHECK(counts.rows > 3 * 4'000);
  CHECK(counts.changed_bytes == counts.rows * 64 * sizeof(float));
  CHECK((counts.overflowed_rows > 0) == (slot_bytes == 500'000));
}
