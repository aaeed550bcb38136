// A trainer with two sinks, one of which does not work.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "millrace/streamer/memory_sink.hpp"
#include "millrace/streamer/row_streamer.hpp"
#include "test/streamer/ship/faulty_sink.hpp"
#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Kind = SinkError::Kind;

constexpr std::size_t kTwoSinkRows = 50, kWidth = 4, kExamples = 6;

/// A table that trains.
class TwoSinkTrainer {
 public:
  TwoSinkTrainer() {
    config_.tables = {{.name = "t", .rows = kTwoSinkRows, .width = kWidth, .features = {"f"}}};
    bags_ = std::make_unique<EmbeddingBags>(bench_.context, config_.tables,
                                            EmbeddingOptions{.optimizer = config_.table_optimizer});
  }

  StreamingReport train(
      const std::vector<std::shared_ptr<Sink>>& sinks, const StreamingOptions& options, int steps,
      const std::function<void(RowStreamer&)>& each_step = [](RowStreamer&) {}) {
    RowStreamer streamer{
        {bench_.context, pinned_, bench_.machine.executor(), bench_.machine.executor()},
        stream_schema(config_, RowContent::weights),
        {{*bags_, "table"}},
        sinks,
        {},
        options};
    for (; steps > 0; --steps) {
      step();
      streamer.step_done();
      each_step(streamer);
    }
    streamer.stop(std::chrono::milliseconds{500});  // a broken sink takes all of this time
    return streamer.report();
  }
  [[nodiscard]] std::vector<float> weights() {
    ModelState state;
    bags_->add_state(state, "table");
    std::vector<float> all = bench_.memory.download(state);
    all.resize(kTwoSinkRows * kWidth);  // drops the optimizer's state
    return all;
  }

 private:
  void step() {
    const KeyedJaggedTensor batch = bench_.memory.upload(
        draw_bags(random_, bags_->features(), {kTwoSinkRows}, kExamples, 3, false));
    std::vector<float> numbers(kExamples * bags_->columns());
    for (float& number : numbers) number = static_cast<float>(random_() % 100) / 50 - 1;
    const BatchTensor gradient = bench_.memory.upload(numbers);
    const auto pooled = bench_.context.activation<float>(numbers.size(), bench_.main);
    bags_->look_up(batch, nullptr, {pooled.data(), bags_->columns()}, bench_.main);
    bags_->update(batch, nullptr, {static_cast<float*>(gradient.data()), bags_->columns()},
                  bench_.main);
  }

  std::mt19937_64 random_{seed()};
  ModelBench bench_;
  CachingAllocator pinned_{bench_.ordered, bench_.pinned, Policy::pinned()};
  SparseNNConfig config_;
  std::unique_ptr<EmbeddingBags> bags_;
};

std::vector<float> weights_in(Sink& sink) {
  std::vector<float> all(kTwoSinkRows * kWidth);
  std::size_t rows = 0;
  sink.read([&](const RowRecord& row) {
    std::ranges::copy(row.weights, all.begin() + row.row * static_cast<std::int64_t>(kWidth));
    ++rows;
  });
  CHECK(rows == kTwoSinkRows);
  return all;
}

}  // namespace

TEST_CASE("of two sinks the working one gets all rows, and the report describes both") {
  const auto policy = GENERATE(QueuePolicy::coalesce, QueuePolicy::recapture);
  const auto [call, kind, words] = GENERATE(table<const char*, Kind, const char*>({
      {"state", Kind::retry, "the deadline has passed"},
      {"write", Kind::retry, "the deadline has passed"},
      {"write", Kind::lost, "the deadline has passed"},
      {"flush", Kind::retry, "the deadline has passed"},
      {"begin", Kind::wrong, "this says the test"},
      {"write", Kind::wrong, "this says the test"},
  }));
  const bool first = GENERATE(true, false);
  CAPTURE(to_string(policy), call, words, first);
  auto good = std::make_shared<MemorySink>();
  auto bad = std::make_shared<FaultySink>(std::make_shared<MemorySink>(),
                                          [call = call, kind = kind](const std::string& made) {
                                            if (made == call)
                                              throw SinkError{kind, "this says the test"};
                                          });
  std::vector<std::shared_ptr<Sink>> sinks{bad, good};
  if (!first) std::swap(sinks[0], sinks[1]);
  StreamingOptions options;
  options.shipping.queue_bytes = 4000;
  options.shipping.when_full = policy;
  options.capture.when_full = WhenFull::mark_dirty;
  TwoSinkTrainer trainer;
  const StreamingReport report = trainer.train(sinks, options, 40);
  CHECK(weights_in(*good) == trainer.weights());
  CHECK(good->state().missing() == 0);
  CHECK_FALSE(report.complete());
  REQUIRE(report.sinks.size() == 2);
  const ShippingReport& of_good = report.sinks[first ? 1 : 0];
  const ShippingReport& of_bad = report.sinks[first ? 0 : 1];
  CHECK(of_good.given_up.empty());
  CHECK(of_good.undelivered_steps == 0);
  CHECK(of_good.delivered == of_good.offered);
  CHECK_THAT(of_bad.given_up, ContainsSubstring(words));
  CHECK((of_bad.given_up + of_bad.last_error).find("this says the test") != std::string::npos);
  CHECK(of_bad.offered == of_good.offered);
}

TEST_CASE("after a flush every sink has every row, and training continues") {
  auto one = std::make_shared<MemorySink>();
  auto other = std::make_shared<MemorySink>();
  TwoSinkTrainer trainer;
  int steps = 0, flushed = 0;
  const StreamingReport report = trainer.train({one, other}, {}, 24, [&](RowStreamer& streamer) {
    if (++steps % 6 != 0) return;
    REQUIRE(streamer.flush(std::chrono::hours{1}));
    ++flushed;
    const std::vector<float> weights = trainer.weights();
    CHECK(weights_in(*one) == weights);
    CHECK(weights_in(*other) == weights);
  });
  CHECK(flushed == 4);
  CHECK(report.complete());
}

TEST_CASE("a flush returns false while a sink lacks rows") {
  auto good = std::make_shared<MemorySink>();
  auto bad =
      std::make_shared<FaultySink>(std::make_shared<MemorySink>(), [](const std::string& made) {
        if (made == "write") throw SinkError{Kind::retry, "this says the test"};
      });
  TwoSinkTrainer trainer;
  bool flushed = true;
  const StreamingReport report = trainer.train({bad, good}, {}, 4, [&](RowStreamer& streamer) {
    flushed = streamer.flush(std::chrono::milliseconds{10});
    CHECK(weights_in(*good) == trainer.weights());
  });
  CHECK_FALSE(flushed);
  CHECK_FALSE(report.complete());
}

}  // namespace millrace::test
