#include "millrace/pipeline/data/loading_thread.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>

#include "millrace/device/thread_executor.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "test/pipeline/data/jagged_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/schedules.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Epochs of `batches` batches. Batch i has i + 1 examples and the ids 100 * epoch + i. `before`
/// runs before each batch, and `written` after it is filled.
class ScriptedSource final : public EpochSource {
 public:
  ScriptedSource(std::uint64_t batches, const PinnedStaging& staging)
      : batches_(batches), staging_(staging) {
    schema_.sparse = {{"a", "table of a", 1000}};
  }

  [[nodiscard]] const InputSchema& schema() const override { return schema_; }
  [[nodiscard]] std::optional<ModelInput> do_next() override {
    ++asked;
    if (before) before(position_);
    if (position_.batch >= batches_) return std::nullopt;
    const auto examples = static_cast<std::size_t>(position_.batch + 1);
    InputShape shape{.batch_size = examples};
    shape.sparse = {.keys = make_keys({"a"}), .batch_size = examples, .counts = {examples}};
    ModelInput batch{staging_.pinned, staging_.copy, shape};
    for (std::int64_t& id : batch.contents().sparse.values().as<std::int64_t>())
      id = wrong_id.value_or(number());
    if (written) written(batch);
    ++position_.batch;
    return batch;
  }
  [[nodiscard]] BatchPosition position() const override { return position_; }
  void do_seek(BatchPosition position) override { position_ = position; }

  std::function<void(BatchPosition)> before;
  std::function<void(const ModelInput&)> written;
  std::optional<std::int64_t> wrong_id;
  int asked = 0;

 private:
  [[nodiscard]] std::int64_t number() const {
    return static_cast<std::int64_t>(100 * position_.epoch + position_.batch);
  }

  std::uint64_t batches_;
  PinnedStaging staging_;
  InputSchema schema_;
  BatchPosition position_;
};

/// 200 empty batches. They need no device: only a virtual device's own actors may use it, and real
/// threads are not its actors.
class EmptyBatches final : public EpochSource {
 public:
  [[nodiscard]] const InputSchema& schema() const override { return schema_; }
  [[nodiscard]] std::optional<ModelInput> do_next() override {
    if (position_.batch == 200) return std::nullopt;
    ++position_.batch;
    return ModelInput{};
  }
  [[nodiscard]] BatchPosition position() const override { return position_; }
  void do_seek(BatchPosition position) override { position_ = position; }

 private:
  InputSchema schema_;
  BatchPosition position_;
};

std::int64_t number_of(const ModelInput& batch) {
  return batch.contents().sparse.values().as<const std::int64_t>()[0];
}

struct LoaderBench : JaggedBench {
  explicit LoaderBench(std::uint64_t batches = 5,
                       VirtualMachine::Options options = VirtualMachine::Options{})
      : JaggedBench(std::size_t{1} << 26, options), source(batches, {host_memory, copy}) {}
  ScriptedSource source;
};

std::vector<std::int64_t> take_all(EpochSource& source) {
  std::vector<std::int64_t> numbers;
  while (const auto batch = source.next()) numbers.push_back(number_of(*batch));
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

struct Training {
  Allocator& memory;
  Stream& main;
  Stream& copy;
};

/// Two epochs, then a seek into a later one, as in a training loop. Each batch is copied to the
/// device.
Numbers train_on(const Training& on, EpochSource& loader) {
  const auto strategy = CopyStrategy::make(
      CopyMethod::precise, {.allocator = on.memory, .main = on.main, .copy = on.copy});
  Numbers numbers;
  const auto epoch = [&] {
    while (auto batch = loader.next()) {
      numbers.push_back(number_of(*batch));
      DeviceModelInput copy = batch->to(*strategy);
      batch->release(copy.copied());
      copy.hand_to(on.main);
      copy.release();
    }
  };
  epoch();
  loader.next_epoch();
  epoch();
  loader.seek({7, 3});
  epoch();
  on.main.synchronize();
  return numbers;
}

const Numbers kTrained{0, 1, 2, 3, 4, 100, 101, 102, 103, 104, 703, 704};

}  // namespace

TEST_CASE("a loader gives its source's batches in order, and then reports the end repeatedly") {
  LoaderBench bench;
  LoadingThread loader{bench.machine.executor(), bench.source};
  CHECK(take_all(loader) == Numbers{0, 1, 2, 3, 4});
  CHECK_FALSE(loader.next());
  CHECK(bench.source.asked == 6);
  CHECK(loader.position() == BatchPosition{0, 5});
  loader.next_epoch();
  CHECK(take_all(loader) == Numbers{100, 101, 102, 103, 104});
}

TEST_CASE("under adversarial schedules a loader gives its source's batches") {
  const auto seed = test::seed() + static_cast<std::uint64_t>(GENERATE(range(0, 40)));
  INFO("seed " << seed);
  LoaderBench bench{5, test::adversarial(seed)};
  LoadingThread loader{bench.machine.executor(), bench.source, {.depth = 1 + seed % 3}};
  CHECK(train_on({bench.memory, bench.main, bench.copy}, loader) == kTrained);
}

TEST_CASE("the checker finds no race between the loader, the copies and main") {
  const auto seed = test::seed() + static_cast<std::uint64_t>(GENERATE(range(0, 20)));
  INFO("seed " << seed);
  VirtualMachine machine{test::adversarial(seed)};
  CheckingObserver checking;
  checking.attach(machine.executor());
  VirtualDevice& device = machine.add_device({.memory_bytes = std::size_t{1} << 26});
  checking.attach(device);
  {
    OrderedDevice ordered{device};
    Stream main{ordered, {.name = "main"}}, copy{ordered, {.name = "copy"}};
    DeviceSource of_device{device};
    PinnedSource of_host{device};
    CachingAllocator memory{ordered, of_device, Policy::millrace()};
    CachingAllocator pinned{ordered, of_host, Policy::pinned()};
    CheckedAllocator checked{memory, checking, device};
    CheckedAllocator checked_pinned{pinned, checking, device, CheckedMemory::pinned};

    ScriptedSource source{5, {checked_pinned, copy}};
    source.written = [&](const ModelInput& batch) {
      for (const HostTensor& tensor : batch.tensors()) {
        if (tensor.bytes > 0) checking.host_writes(tensor.data, tensor.bytes, "load");
      }
    };
    LoadingThread loader{machine.executor(), source};
    CHECK(train_on({checked, main, copy}, loader) == kTrained);
  }
  const auto races = checking.races();
  CHECK(races.empty());
  CHECK(checking.operations() > 0);
  checking.detach(device);
}

TEST_CASE("on real threads a loader gives its source's batches") {
  ThreadExecutor executor;
  EmptyBatches source;
  for (unsigned round = 0; round < 20; ++round) {
    LoadingThread loader{executor, source, {.depth = 3}};
    loader.seek({0, 0});
    for (unsigned i = 0; i < 10 * round; ++i) REQUIRE(loader.next());
    CHECK(loader.position().batch == 10 * round);
    loader.seek({1, 150});
    int left = 0;
    while (loader.next()) ++left;
    CHECK(left == 50);
  }
}

TEST_CASE("a loader reads ahead exactly as many batches as its depth") {
  LoaderBench bench{100};
  LoadingThread loader{bench.machine.executor(), bench.source, {.depth = 3}};
  bench.machine.executor().spend(1s);
  CHECK(bench.source.asked == 3);
  CHECK(loader.next());
  bench.machine.executor().spend(1s);
  CHECK(bench.source.asked == 4);
  CHECK(loader.position() == BatchPosition{0, 1});
}

TEST_CASE("loading overlaps the consumer's work") {
  LoaderBench bench{10};
  Executor& executor = bench.machine.executor();
  bench.source.before = [&](BatchPosition) { executor.spend(10ms); };
  LoadingThread loader{executor, bench.source};
  const Nanoseconds before = executor.now();
  while (loader.next()) executor.spend(10ms);
  CHECK(executor.now() - before < 130ms);
}

TEST_CASE("a source that fails is asked again, and no batch is lost") {
  LoaderBench bench;
  int failures = 0;
  bench.source.before = [&](BatchPosition position) {
    if (position.batch == 2 && failures < 2) {
      ++failures;
      throw RetriableError{"the network"};
    }
  };
  const Nanoseconds before = bench.machine.now();
  LoadingThread loader{bench.machine.executor(), bench.source, {.attempts = 3, .pause = 5ms}};
  CHECK(take_all(loader) == Numbers{0, 1, 2, 3, 4});
  CHECK(failures == 2);
  CHECK(bench.machine.now() - before >= 10ms);
}

TEST_CASE("a loader throws while its source keeps failing, and continues once it works again") {
  LoaderBench bench;
  bool broken = true;
  int failures = 0;
  bench.source.before = [&](BatchPosition position) {
    if (position.batch == 2 && broken) {
      ++failures;
      throw RetriableError{"the network"};
    }
  };
  LoadingThread loader{bench.machine.executor(), bench.source, {.attempts = 3}};
  CHECK(number_of(*loader.next()) == 0);
  CHECK(number_of(*loader.next()) == 1);
  CHECK_THROWS_WITH(loader.next(), ContainsSubstring("the network"));
  CHECK(failures == 3);
  CHECK(loader.position() == BatchPosition{0, 2});
  broken = false;
  CHECK(take_all(loader) == Numbers{2, 3, 4});
}

TEST_CASE("an exception is thrown after the batches before it, and only once") {
  LoaderBench bench;
  bool thrown = false;
  bench.source.before = [&](BatchPosition position) {
    if (position.batch == 1 && !std::exchange(thrown, true)) throw std::logic_error{"broken"};
  };
  LoadingThread loader{bench.machine.executor(), bench.source};
  bench.machine.executor().spend(1s);
  CHECK(number_of(*loader.next()) == 0);
  CHECK_THROWS_WITH(loader.next(), "broken");
  CHECK(take_all(loader) == Numbers{1, 2, 3, 4});
}

TEST_CASE("an id that is not a row of its table is found when its batch is loaded") {
  LoaderBench bench;
  bench.source.wrong_id = 1000;
  LoadingThread loader{bench.machine.executor(), bench.source};
  CHECK_THROWS_WITH(loader.next(), ContainsSubstring("'a'") && ContainsSubstring("id 1000") &&
                                       ContainsSubstring("'table of a'"));
  CHECK(loader.position() == BatchPosition{0, 1});  // the invalid batch is skipped
  loader.seek({0, 4});
  bench.source.wrong_id = -1;
  CHECK_THROWS_AS(loader.next(), std::out_of_range);
}

TEST_CASE("a destroyed loader frees the batches that it holds") {
  LoaderBench bench;
  {
    LoadingThread loader{bench.machine.executor(), bench.source, {.depth = 4}};
    CHECK(loader.next());
    bench.machine.executor().spend(1s);
    CHECK(bench.host_memory.statistics().bytes.allocated.current > 0);
  }
  CHECK(bench.host_memory.statistics().bytes.allocated.current == 0);
}

TEST_CASE("a loader with a depth of 0 or with 0 attempts is refused") {
  LoaderBench bench;
  Executor& executor = bench.machine.executor();
  CHECK_THROWS_AS((LoadingThread{executor, bench.source, {.depth = 0}}), std::invalid_argument);
  CHECK_THROWS_AS((LoadingThread{executor, bench.source, {.attempts = 0}}), std::invalid_argument);
}
