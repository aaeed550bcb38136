/// @file
/// soak_stream SECONDS [ROWS WIDTH]: trains tables on a virtual device. Each step changes ROWS rows
/// of WIDTH floats (default 100000 and 64). `ring` captures them for a sink that is slower than the
/// training. Ends with 1 if resident memory grows by more than 5% (in a run of less than two
/// minutes: 50%) after the first fifth of the time.
///
/// soak_stream --kill SECONDS [SEED [SINK]]: see soak/kill.hpp.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "millrace/device/thread_executor.hpp"
#include "millrace/streamer/row_streamer.hpp"
#include "soak/kill.hpp"
#include "test/support/model_bench.hpp"

using namespace millrace;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kTables = 4;
constexpr double kMostGrowth = 1.05;
constexpr double kMostGrowthOfShort = 1.5;  ///< the content of a queue varies with each batch
constexpr std::size_t kShort = 120;         ///< seconds

/// Takes batches at the given speed and drops them.
class SlowSink final : public Sink {
 public:
  explicit SlowSink(double bytes_per_second) : rate_(bytes_per_second) {}

  [[nodiscard]] std::string name() const override { return "slow"; }
  [[nodiscard]] SinkState state() override { return {}; }
  void begin(const StreamSchema&) override {}
  void write(const StepBatch& batch, std::string_view) override {
    std::this_thread::sleep_for(
        std::chrono::duration<double>{static_cast<double>(batch.bytes()) / rate_});
  }
  void flush() override {}
  void read(const std::function<void(const RowRecord&)>&) override {}

 private:
  const double rate_;
};

std::size_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::size_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

struct Options {
  std::size_t seconds = 0, rows = 100'000, width = 64;
};

Options parse(int argc, char** argv) {
  Options options;
  std::vector<std::size_t*> numbers{&options.seconds, &options.rows, &options.width};
  for (int i = 1; i < argc && i <= 3; ++i) {
    std::from_chars(argv[i], argv[i] + std::strlen(argv[i]),
                    *numbers[static_cast<std::size_t>(i - 1)]);
  }
  return options;
}

/// Returns a batch with random ids. A table has four times as many rows as the batch has ids of it,
/// so few ids repeat.
test::HostBags batch_of(std::mt19937_64& random, const Options& options, std::size_t table_rows) {
  test::HostBags bags{.batch = options.rows / kTables};
  for (std::size_t t = 0; t < kTables; ++t) {
    bags.features.push_back(fmt::format("f{}", t));
    auto& of_table = bags.bags.emplace_back(bags.batch);
    for (auto& bag : of_table) bag = {static_cast<std::int64_t>(random() % table_rows)};
  }
  return bags;
}

int soak_memory(const Options& options) {
  const std::size_t table_rows = options.rows;
  test::ModelBench bench;
  CachingAllocator pinned{bench.ordered, bench.pinned, Policy::pinned()};
  SparseNNConfig config;
  for (std::size_t t = 0; t < kTables; ++t) {
    config.tables.push_back({.name = fmt::format("{}", t),
                             .rows = table_rows,
                             .width = options.width,
                             .features = {fmt::format("f{}", t)}});
  }
  EmbeddingBags bags{bench.context, config.tables, {.optimizer = {.kind = OptimizerKind::sgd}}};
  ThreadExecutor threads;
  const double slow = 20e6;
  StreamingOptions streaming;
  streaming.capture.slot_bytes = options.rows * (options.width * 4 + 8) + (1U << 20U);
  streaming.shipping.queue_bytes = 4 * options.rows * record_bytes(options.width);
  RowStreamer streamer{{bench.context, pinned, bench.machine.executor(), threads},
                       stream_schema(config, RowContent::weights),
                       {{bags, "table"}},
                       {std::make_shared<SlowSink>(slow)},
                       {},
                       streaming};
  std::mt19937_64 random{1};
  std::vector<KeyedJaggedTensor> batches;
  for (int i = 0; i < 4; ++i) {
    batches.push_back(bench.memory.upload(batch_of(random, options, table_rows)));
  }
  const std::size_t columns = kTables * options.width, examples = options.rows / kTables;
  const auto pooled = bench.context.activation<float>(examples * columns, bench.main);
  bench.device.fill(pooled.data(), 0, pooled.size() * sizeof(float), bench.main.handle());

  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const auto seconds = static_cast<double>(options.seconds);
  std::size_t early = 0, late = 0, steps = 0;
  double next_line = 0;
  while (passed() < seconds) {
    const KeyedJaggedTensor& batch = batches[steps++ % batches.size()];
    bags.update(batch, nullptr, {pooled.data(), columns}, bench.main);
    streamer.step_done();
    bench.main.synchronize();
    const std::size_t resident = resident_bytes();
    (passed() < seconds / 5 ? early : late) =
        std::max(passed() < seconds / 5 ? early : late, resident);
    if (passed() < next_line) continue;
    next_line += seconds / 15;
    fmt::print("{:6.1f} s  {:6} steps  {:8.1f} MiB resident\n", passed(), steps,
               static_cast<double>(resident) / (1U << 20U));
    std::fflush(stdout);
  }
  streamer.stop(0s);
  const ShippingReport sink = streamer.report().sinks[0];
  const double growth = static_cast<double>(late) / static_cast<double>(early);
  fmt::print(
      "{} steps; {} rows delivered, {} merged, {} to be captured again; {:.1f} MiB at most in the "
      "first fifth, {:.1f} later: {:.3f} times\n",
      steps, sink.rows, sink.coalesced_rows, sink.recaptured_rows,
      static_cast<double>(early) / (1U << 20U), static_cast<double>(late) / (1U << 20U), growth);
  if (sink.coalesced_rows + sink.recaptured_rows == 0) {
    fmt::print("the sink was not slower than the training: this says nothing\n");
    return 1;
  }
  return growth <= (options.seconds < kShort ? kMostGrowthOfShort : kMostGrowth) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words{argv + 1, argv + argc};
  try {
    if (!words.empty() && words[0] == "--kill" && words.size() >= 2 && words.size() <= 4) {
      soak::KillOptions kills{.program = MILLRACE_PROGRAM, .seconds = std::stod(words[1])};
      if (words.size() > 2) kills.seed = std::stoull(words[2]);
      if (words.size() > 3) kills.sink = words[3];
      return soak::kill_soak(kills) == 0 ? 0 : 1;
    }
    const Options options = parse(argc, argv);
    if (options.seconds > 0 && options.rows >= kTables && options.width > 0)
      return soak_memory(options);
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "soak_stream: {}\n", error.what());
  }
  fmt::print(stderr, "usage: {0} SECONDS [ROWS WIDTH]\n       {0} --kill SECONDS [SEED [SINK]]\n",
             argv[0]);
  return 2;
}
