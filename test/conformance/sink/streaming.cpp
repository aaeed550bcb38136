#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/thread_executor.hpp"
#include "millrace/streamer/row_streamer.hpp"
#include "test/conformance/sink/sink_conformance.hpp"
#include "test/streamer/ship/faulty_sink.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/schedules.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kExamples = 5;

/// Keeps a sink, and makes sinks that forward to it and sometimes fail.
class SharedSink {
 public:
  explicit SharedSink(SinkPlace& place) : sink_(place.open()) {}
  [[nodiscard]] std::shared_ptr<Sink> faulty(std::mt19937_64& random, const bool& faults) {
    return std::make_shared<FaultySink>(sink_, [&random, &faults](const std::string& call) {
      if (!faults || random() % 4 != 0) return;
      const bool lost = call == "write" && random() % 6 == 0;
      throw SinkError{lost ? SinkError::Kind::lost : SinkError::Kind::retry, "the seed says so"};
    });
  }
  [[nodiscard]] Sink& sink() { return *sink_; }

 private:
  std::shared_ptr<Sink> sink_;
};

/// Trains two sides of tables and streams them to a sink.
class Training {
 public:
  Training(std::uint64_t seed, CaptureMode mode)
      : random_(seed),
        bench_(adversarial(seed)),
        pinned_(bench_.ordered, bench_.pinned, Policy::pinned()) {
    const std::size_t many = random_() % 8 == 0 ? 140 : 3;
    config_ = {.tables = tables("t", many), .weighted_tables = tables("w", 2)};
    config_.table_optimizer = {.kind = random_() % 2 == 0 ? OptimizerKind::adagrad
                                                          : OptimizerKind::rowwise_adagrad};
    for (const auto* side : {&config_.tables, &config_.weighted_tables}) {
      bags_.push_back(std::make_unique<EmbeddingBags>(
          bench_.context, *side, EmbeddingOptions{.optimizer = config_.table_optimizer}));
    }
    options_.capture.mode = mode;
    options_.capture.content = RowContent::weights_and_state;
    options_.capture.slot_bytes = (1U << 12U) << random_() % 5;
    options_.capture.slots = 1 + random_() % 3;
    options_.capture.when_full = random_() % 2 == 0 ? WhenFull::block : WhenFull::mark_dirty;
    options_.shipping.queue_bytes = (1U << 10U) << random_() % 8;
    options_.shipping.when_full = std::array{QueuePolicy::coalesce, QueuePolicy::recapture,
                                             QueuePolicy::block}[random_() % 3];
    options_.shipping.first_retry = 1us;
    options_.shipping.longest_retry = 10us;
  }

  void stream(std::shared_ptr<Sink> sink, const Lineage& lineage) {
    options_.epoch = lineage.last().epoch + 1;
    streamer_ = std::make_unique<RowStreamer>(
        StreamingEnvironment{bench_.context, pinned_, bench_.machine.executor(),
                             bench_.machine.executor()},
        schema(), std::vector<StreamedBags>{{*bags_[0], "table"}, {*bags_[1], "weighted_table"}},
        std::vector<std::shared_ptr<Sink>>{std::move(sink)}, lineage, options_);
  }

  void train(std::size_t steps) {
    for (; steps > 0; --steps) {
      for (auto& bags : bags_) step(*bags);
      streamer_->step_done();
    }
  }

  /// Stops the streamer. Describes what is not complete; empty if all is.
  [[nodiscard]] std::string stop() {
    streamer_->stop(1h);
    const StreamingReport report = streamer_->report();
    streamer_.reset();
    if (report.complete()) return "";
    const ShippingReport& sink = report.sinks[0];
    return fmt::format("given up: {}; offered {}, delivered {}; {} steps undelivered, {} missing",
                       sink.given_up, to_string(sink.offered), to_string(sink.delivered),
                       sink.undelivered_steps, sink.missing);
  }
  void crash() { streamer_.reset(); }
  [[nodiscard]] Lineage lineage() const { return streamer_->lineage(); }
  [[nodiscard]] StreamSchema schema() const {
    return stream_schema(config_, RowContent::weights_and_state);
  }

  /// The data that a checkpoint keeps.
  struct Contents {
    std::vector<float> numbers;
    std::vector<std::uint64_t> counters;
  };
  [[nodiscard]] Contents contents() {
    const ModelState model = state();
    Contents contents{bench_.memory.download(model), {}};
    for (const StateCounter& counter : model.counters) contents.counters.push_back(*counter.value);
    return contents;
  }
  void restore(const Contents& contents) {
    const ModelState model = state();
    for (std::size_t i = 0; i < contents.counters.size(); ++i) {
      *model.counters[i].value = contents.counters[i];
    }
    const float* from = contents.numbers.data();
    for (const StateTensor& tensor : model.tensors) {
      bench_.device.copy(tensor.data, from, tensor.size * sizeof(float), tensor.upload(),
                         bench_.main.handle());
      from += tensor.size;
    }
    bench_.main.synchronize();
  }

  /// Describes the first row of the sink that differs from the table's; empty if none does.
  [[nodiscard]] std::string difference_to(Sink& sink) {
    const Rows there = rows_of(sink);
    std::size_t rows = 0;
    for (std::size_t side = 0, table = 0; side < 2; ++side) {
      for (const TableView& view : bags_[side]->tables()) {
        for (std::size_t row = 0; row < view.rows; ++row, ++rows) {
          const auto found =
              there.find({static_cast<std::uint32_t>(table), static_cast<std::int64_t>(row)});
          if (found == there.end()) return fmt::format("table {} row {} is absent", table, row);
          const auto weights = bench_.memory.download(view.weights + row * view.width, view.width);
          const std::size_t width = found->second.state.size();
          const auto state = bench_.memory.download(view.first_moment + row * width, width);
          if (std::memcmp(weights.data(), found->second.weights.data(), 4 * weights.size()) != 0 ||
              std::memcmp(state.data(), found->second.state.data(), 4 * width) != 0) {
            return fmt::format("table {} row {} of version {} differs", table, row,
                               to_string(found->second.version));
          }
        }
        ++table;
      }
    }
    return rows == there.size() ? "" : fmt::format("{} rows, {} there", rows, there.size());
  }

 private:
  [[nodiscard]] std::vector<TableConfig> tables(const std::string& name, std::size_t count) {
    std::vector<TableConfig> all;
    for (std::size_t t = 0; t < count; ++t) {
      all.push_back({.name = fmt::format("{}{}", name, t),
                     .rows = 1 + random_() % 30,
                     .width = 1 + random_() % 9,
                     .features = {fmt::format("{}{}", name, t)}});
    }
    return all;
  }
  [[nodiscard]] ModelState state() {
    ModelState model;
    bags_[0]->add_state(model, "table");
    bags_[1]->add_state(model, "weighted_table");
    return model;
  }

  void step(EmbeddingBags& bags) {
    std::vector<std::size_t> rows;
    for (const TableView& table : bags.tables()) rows.push_back(table.rows + 1);  // also wrong ids
    const std::size_t examples = random_() % 6 == 0 ? 0 : kExamples;
    const KeyedJaggedTensor batch =
        bench_.memory.upload(draw_bags(random_, bags.features(), rows, examples, 3, false));
    std::vector<float> numbers(std::max<std::size_t>(examples * bags.columns(), 1));
    for (float& number : numbers) number = static_cast<float>(random_() % 100) / 50 - 1;
    const BatchTensor gradient = bench_.memory.upload(numbers);
    const auto pooled = bench_.context.activation<float>(numbers.size(), bench_.main);
    bags.look_up(batch, nullptr, {pooled.data(), bags.columns()}, bench_.main);
    bags.update(batch, nullptr, {static_cast<float*>(gradient.data()), bags.columns()},
                bench_.main);
  }

  std::mt19937_64 random_;
  ModelBench bench_;
  CachingAllocator pinned_;
  SparseNNConfig config_;
  StreamingOptions options_;
  std::vector<std::unique_ptr<EmbeddingBags>> bags_;
  std::unique_ptr<RowStreamer> streamer_;
};

}  // namespace

TEST_CASE("a trainer's stream equals its tables despite sink faults and restored checkpoints",
          "[sink]") {
  over_every_sink([](const SinkFixture& fixture) {
    const std::uint64_t programs = fixture.name == "memory" ? 100 : 4;
    for (const CaptureMode mode : kCaptureModes) {
      for (std::uint64_t i = seed(); i < seed() + programs; ++i) {
        INFO("MILLRACE_SEED=" << i << ", captured by " << to_string(mode));
        const auto place = fixture.make_place();
        SharedSink shared{*place};
        std::mt19937_64 random{i};
        bool faults = true;
        Training training{i, mode};
        training.stream(shared.faulty(random, faults), {});
        training.train(random() % 8);
        if (random() % 3 == 0) {  // the run ends well, and the next one continues
          faults = false;
          const Lineage so_far = training.lineage();
          REQUIRE(training.stop() == "");
          CHECK(training.difference_to(shared.sink()) == "");
          training.stream(shared.faulty(random, faults), so_far);
        }
        faults = true;
        training.train(1 + random() % 4);

        const Training::Contents saved = training.contents();
        const Lineage lineage = training.lineage();
        training.train(random() % 6);
        training.crash();
        training.restore(saved);
        training.stream(shared.faulty(random, faults), lineage);
        training.train(random() % 6);
        faults = false;
        REQUIRE(training.stop() == "");
        CHECK(training.difference_to(shared.sink()) == "");
        CHECK(shared.sink().state().missing() == 0);
      }
    }
  });
}
