#include "millrace/streamer/row_capture.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "capture/dirty_rows.hpp"
#include "capture/source_rows.hpp"
#include "millrace/device/thread_executor.hpp"
#include "millrace/streamer/memory_sink.hpp"
#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

/// Compares the CUDA kernels of tracking and capture with the host kernels, byte by byte.

using namespace millrace;
using namespace millrace::capture;
using namespace millrace::test;

namespace {

struct GpuBench {
  std::unique_ptr<CudaDevice> gpu = require_gpu();
  OrderedDevice ordered{*gpu};
  Stream main{ordered, {.name = "main"}};
  DeviceSource source{*gpu};
  PinnedSource pinned{*gpu};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  ModelContext context{allocator, main};
  ModelMemory memory{allocator, main};
};

/// Returns the results of operations on a bitmap and on tables, on either device.
template <typename Bench>
std::vector<std::uint64_t> marked_and_collected(IndexType type, std::uint32_t shift,
                                                int rounds = 12) {
  Bench bench;
  CachingAllocator pinned{bench.ordered, bench.pinned, Policy::pinned()};
  std::mt19937_64 random{seed()};
  const std::size_t rows = 300'000 + random() % 1000;
  DirtyRows dirty{bench.context, rows, type, shift};
  std::vector<std::uint64_t> out;
  for (int i = 0; i < rounds; ++i) {
    std::vector<std::uint64_t> marked(random() % 5000);
    for (auto& row : marked) row = random() % rows;
    dirty.mark_dirty(marked, pinned, bench.main);
    const std::uint64_t first = random() % rows;
    dirty.mark_dirty(first, first + random() % (rows - first) / 50, bench.main);
    const DirtyRows::Collected taken = dirty.collect(8 + random() % 9000, bench.main);
    const std::uint32_t count =
        bench.memory.download(static_cast<const std::uint32_t*>(taken.count.data()), 1)[0];
    with_key(type, [&]<typename Key>(Key) {
      const auto keys = bench.memory.download(static_cast<const Key*>(taken.rows.data()), count);
      out.insert(out.end(), keys.begin(), keys.end());
    });
    out.push_back(
        bench.memory.download(static_cast<const DirtyCounts*>(dirty.counts().data()), 1)[0].rows);
  }
  return out;
}

std::vector<TableConfig> tables(std::size_t count) {
  constexpr std::size_t kWidths[] = {3, 64, 260, 8, 1};
  std::vector<TableConfig> tables;
  for (std::size_t t = 0; t < count; ++t) {
    tables.push_back({.name = "t" + std::to_string(t),
                      .rows = 1 + 37 * (t % 11),
                      .width = kWidths[t % 5],
                      .features = {"f" + std::to_string(t)}});
  }
  return tables;
}

/// Returns the bytes that gathers of rows leave in a slot: the headers and the data they describe.
template <typename Bench>
std::vector<std::byte> gathered(std::size_t table_count, RowContent content, std::size_t bytes,
                                int rounds = 6) {
  Bench bench;
  CachingAllocator pinned{bench.ordered, bench.pinned, Policy::pinned()};
  EmbeddingBags bags{
      bench.context, tables(table_count), {.optimizer = {.kind = OptimizerKind::adam}}};
  const std::vector<std::string> skipped{"t1"};
  SourceRows source{bench.context, bags, {content, skipped}};
  DirtyRows dirty{bench.context, source.rows(), bags.row_type()};
  const Array<std::byte> slot{bench.allocator, bytes, bench.main};
  std::mt19937_64 random{seed()};
  std::vector<std::byte> out;
  for (int i = 0; i < rounds; ++i) {
    std::vector<std::uint64_t> rows(random() % source.rows());
    for (auto& row : rows) row = random() % source.rows();
    dirty.mark_dirty(rows, pinned, bench.main);
    const DirtyRows::Collected list = dirty.collect(source.rows(), bench.main);
    source.gather(source.of(list.list(), 100), {slot.data(), bytes, false}, dirty, pinned,
                  bench.main);
    const auto all = bench.memory.download(static_cast<const std::byte*>(slot.data()), bytes);
    CaptureHeader header;
    std::memcpy(&header, all.data(), sizeof(header));
    REQUIRE(source.valid(all.data(), bytes));
    CapturedRows brought;
    const std::vector<std::uint32_t> numbers(table_count);
    source.read(all.data(), numbers, brought);
    const auto add = [&](const void* from, std::size_t size) {
      const auto* const begin = static_cast<const std::byte*>(from);
      out.insert(out.end(), begin, begin + size);
    };
    add(&header, sizeof(header));
    add(brought.short_ids.data(), brought.short_ids.size_bytes());
    for (const CapturedRows::TableRows& part :
         brought.tables) {  // the bytes between have no meaning
      if (part.weights != nullptr) add(part.weights, part.rows * part.width * sizeof(float));
      if (part.optimizer_state != nullptr) {
        add(part.optimizer_state, part.rows * part.state * sizeof(float));
      }
    }
  }
  return out;
}

class ToSink final : public CaptureReceiver {
 public:
  bool captured(const CapturedRows& rows) override {
    StepBatch batch;
    rows.visit(1, [&](const RowRecord& row) { batch.add(row); });
    batch.commit.version = {1, ++number_};
    batch.commit.step = rows.step;
    sink.write(batch);
    return true;
  }
  MemorySink sink;

 private:
  std::uint64_t number_ = 0;
};

/// A model that trains, and the way of its capture.
struct CaptureCase {
  CaptureMode mode;
  GatherOn gather_on;
  bool cached;
  std::size_t rows = 5000, examples = 200;
  int steps = 40;
};

void check_captured(const CaptureCase& of) {
  GpuBench bench;
  CachingAllocator pinned{bench.ordered, bench.pinned, Policy::pinned()};
  ThreadExecutor executor;
  EmbeddingOptions options;
  if (of.cached) options.cache = TableCache{0.2};
  const std::vector<TableConfig> configs{{"t", of.rows, 64, Pooling::sum, {"f"}}};
  EmbeddingBags bags{bench.context, configs, options};
  ToSink receiver;
  RowCapture capture{{bags, 0, {0}},
                     {bench.context, pinned, executor, receiver},
                     {.mode = of.mode, .slot_bytes = 200'000, .gather_on = of.gather_on}};
  receiver.sink.begin({.tables = capture.tables()});
  std::mt19937_64 random{seed()};
  capture.mark_all_dirty();
  for (int step = 0; step < of.steps; ++step) {
    const HostBags batch = draw_bags(random, bags.features(), {of.rows}, of.examples, 6, false);
    const BatchTensor gradient = bench.memory.upload(
        std::vector<float>(of.examples * 64, 1.0F / static_cast<float>(step + 1)));
    const KeyedJaggedTensor ids = bench.memory.upload(batch);
    const HeldRows held = bags.prefetch(ids, bench.main);
    bags.update(ids, nullptr, {gradient.as<float>().data(), 64, 0}, bench.main);
  }
  REQUIRE(capture.flush(bench.main, std::chrono::seconds{20}));
  capture.stop();
  ModelState state;
  bags.add_state(state, "");
  bench.main.synchronize();
  std::vector<float> weights = bench.memory.download(state);
  weights.resize(of.rows * 64);
  std::vector<float> brought(weights.size());
  receiver.sink.read([&](const RowRecord& row) {
    std::copy(row.weights.begin(), row.weights.end(), brought.begin() + row.row * 64);
  });
  INFO(to_string(of.mode) << (of.cached ? ", cached" : ""));
  CHECK(brought == weights);
}

}  // namespace

TEST_CASE("rows are marked and collected on a GPU as on a host", "[gpu][streamer]") {
  for (const IndexType type : {IndexType::int32, IndexType::int64}) {
    for (const std::uint32_t shift : {0U, 3U}) {
      const auto on_gpu = marked_and_collected<GpuBench>(type, shift);
      CHECK(on_gpu == marked_and_collected<ModelBench>(type, shift));
    }
  }
}

TEST_CASE("rows are gathered on a GPU as on a host, and rows without room are marked",
          "[gpu][streamer]") {
  for (const std::size_t count : {3U, 40U, 400U, 4000U}) {
    for (const RowContent content :
         {RowContent::ids, RowContent::weights, RowContent::weights_and_state}) {
      for (const std::size_t bytes : {std::size_t{100'000}, std::size_t{8} << 20}) {
        const auto on_gpu = gathered<GpuBench>(count, content, bytes);
        CHECK(on_gpu == gathered<ModelBench>(count, content, bytes));
      }
    }
  }
}

TEST_CASE("rows that are captured on a GPU equal the tables, in every mode", "[gpu][streamer]") {
  for (const CaptureMode mode : kCaptureModes) {
    for (const GatherOn gather_on : {GatherOn::update_stream, GatherOn::own_stream}) {
      for (const bool cached : {false, true}) check_captured({mode, gather_on, cached});
    }
  }
}

// For compute-sanitizer: runs each kernel of the capture at least once, in few launches.

TEST_CASE("a few rows are marked, collected and gathered on a GPU as on a host",
          "[gpu][streamer][kernels]") {
  const auto marked = marked_and_collected<GpuBench>(IndexType::int32, 3, 2);
  CHECK(marked == marked_and_collected<ModelBench>(IndexType::int32, 3, 2));
  for (const std::size_t count : {3U, 400U}) {
    const auto on_gpu = gathered<GpuBench>(count, RowContent::weights_and_state, 100'000, 2);
    CHECK(on_gpu == gathered<ModelBench>(count, RowContent::weights_and_state, 100'000, 2));
  }
}

TEST_CASE("a few rows that are captured on a GPU equal the tables", "[gpu][streamer][kernels]") {
  for (const CaptureMode mode : kCaptureModes) {
    check_captured({mode, GatherOn::update_stream, mode == CaptureMode::mapped, 500, 40, 3});
  }
}
