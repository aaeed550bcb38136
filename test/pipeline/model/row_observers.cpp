#include <string>
#include <vector>

#include "millrace/pipeline/model/embedding_bags.hpp"
#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Records the observer's calls and the operations on rows, in the order in which they are
/// enqueued.
class Hears final : public RowUpdateObserver, public DeviceObserver {
 public:
  explicit Hears(ModelBench& bench) : bench_(bench) { bench.device.add_observer(*this); }
  ~Hears() override { bench_.device.remove_observer(*this); }

  void rows_updated(const RowUpdate& update) override {
    heard.push_back(update.most == 0 ? "updated nothing" : "updated");
    steps.push_back(update.step);
    if (update.most == 0) return;
    const Array<std::int32_t> slots =
        bags->locate(update.rows, update.most, update.count, update.stream);
    const std::uint32_t count = bench_.memory.download(update.count, 1)[0];
    CHECK(bench_.memory.download(static_cast<const std::int32_t*>(slots.data()), count) ==
          bench_.memory.download(update.slots, count));
    CHECK(update.expected.size() == 1);
    CHECK(update.expected[0] > 0);
  }
  void rows_will_move(StreamRef stream) override {
    CHECK(stream.id() == bench_.main.id());
    heard.push_back("will move");
  }
  void enqueued(StreamHandle, const Operation& operation) override {
    if (operation.name == "update tables" || operation.name == "bring rows" ||
        operation.name == "empty cache") {
      heard.push_back(operation.name);
    }
  }

  EmbeddingBags* bags = nullptr;
  std::vector<std::string> heard;
  std::vector<std::uint64_t> steps;

 private:
  ModelBench& bench_;
};

}  // namespace

TEST_CASE("an observer is called before rows change or move, and for updates without rows") {
  ModelBench bench;
  Hears hears{bench};
  EmbeddingBags bags{bench.context,
                     {{"table", 400, 4, Pooling::sum, {"a"}, 1000, 600}},
                     {.observer = &hears, .cache = TableCache{32.0 / 400}}};
  hears.bags = &bags;
  const auto step = [&](std::vector<std::int64_t> ids) {
    HostBags batch{.features = {"a"}, .batch = 1};
    batch.bags = {{std::move(ids)}};
    const KeyedJaggedTensor uploaded = bench.memory.upload(batch);
    const BatchTensor gradient = bench.memory.upload(std::vector<float>(4, 1));
    const HeldRows held = bags.prefetch(uploaded, bench.main);
    bags.update(uploaded, nullptr, {gradient.as<float>().data(), 4, 0}, bench.main);
  };
  step({3, 9, 3});
  CHECK(hears.heard == std::vector<std::string>{"will move", "bring rows", "will move",
                                                "update tables", "updated"});
  hears.heard.clear();
  step({});
  CHECK(hears.heard == std::vector<std::string>{"will move", "updated nothing"});
  hears.heard.clear();
  ModelState state;
  bags.add_state(state, "");
  CHECK(hears.heard == std::vector<std::string>{"will move", "empty cache"});
  CHECK(hears.steps == std::vector<std::uint64_t>{1, 2});
  CHECK(bags.steps() == 2);
  CHECK(bags.tables()[0].whole_rows == 1000);
  CHECK(bags.tables()[0].row_of_whole == 600);
}
