#include "millrace/pipeline/data/model_input.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "millrace/memory/driver_allocator.hpp"
#include "test/pipeline/data/jagged_support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct InputBench : JaggedBench {
  explicit InputBench(CopyMethod method = CopyMethod::side_stream) {
    Allocator& of_batches =
        traits_of(method).uses_driver_pool ? static_cast<Allocator&>(pool) : memory;
    strategy = CopyStrategy::make(method, {.allocator = of_batches, .main = main, .copy = copy});
  }

  DriverAllocator pool{ordered};
  std::unique_ptr<CopyStrategy> strategy;

  [[nodiscard]] std::vector<std::byte> read_back(const BatchTensor& tensor) {
    const BatchTensor host{host_memory, tensor.bytes(), main};
    if (!tensor.empty()) {
      device.copy(host.data(), tensor.data(), tensor.bytes(), CopyKind::device_to_host,
                  main.handle());
    }
    main.synchronize();
    const auto bytes = host.as<std::byte>();
    return {bytes.begin(), bytes.end()};
  }
};

InputShape shape_of(std::size_t examples) {
  InputShape shape{.batch_size = examples, .dense_features = 3};
  shape.sparse = {
      .keys = make_keys({"a", "b"}), .batch_size = examples, .counts = {2 * examples, examples}};
  shape.weighted = {.keys = make_keys({"w"}),
                    .batch_size = examples,
                    .counts = {4 * examples},
                    .weighted = true,
                    .value_type = IndexType::int32};
  return shape;
}

/// Fills every byte of every tensor with a value that depends on its position.
void fill(const ModelInput& batch) {
  unsigned char value = 1;
  for (const HostTensor& tensor : batch.tensors()) {
    for (std::size_t i = 0; i < tensor.bytes; ++i)
      static_cast<unsigned char*>(tensor.data)[i] = value += 7;
  }
}

std::vector<BatchTensor> parts(const InputTensors& input) {
  return {input.dense,
          input.labels,
          input.sparse.lengths(),
          input.sparse.offsets(),
          input.sparse.values(),
          input.weighted.lengths(),
          input.weighted.offsets(),
          input.weighted.values(),
          input.weighted.weights()};
}

}  // namespace

TEST_CASE("a batch is the same on the device, by every copy strategy and at every size") {
  const CopyMethod method = GENERATE(from_range(kCopyMethods));
  InputBench bench{method};
  for (const std::size_t examples :
       {5U, 0U, 1U, 900U, 2U}) {  // larger than the largest so far, short, empty
    ModelInput host{bench.host_memory, bench.copy, shape_of(examples)};
    fill(host);
    std::vector<std::vector<std::byte>> expected;
    for (const BatchTensor& part : parts(host.contents())) {
      const auto bytes = part.as<std::byte>();
      expected.emplace_back(bytes.begin(), bytes.end());
    }
    DeviceModelInput batch = host.to(*bench.strategy);
    host.release(batch.copied());
    batch.hand_to(bench.main);
    CHECK(batch.tensors().batch_size == examples);
    CHECK(batch.tensors().sparse.layout() == shape_of(examples).sparse);
    CHECK(batch.tensors().weighted.layout() == shape_of(examples).weighted);
    const auto on_device = parts(batch.tensors());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(bench.read_back(on_device[i]) == expected[i]);
    }
    batch.release();
    CHECK(batch.tensors().sparse.empty());
  }
}

TEST_CASE("absent parts of a batch take no memory") {
  InputBench bench;
  const ModelInput batch{
      bench.host_memory, bench.copy, {.batch_size = 4, .dense_features = 0, .labeled = false}};
  CHECK(batch.bytes() == 0);
  CHECK(batch.contents().sparse.empty());
  DeviceModelInput copy = batch.to(*bench.strategy);
  CHECK(copy.tensors().batch_size == 4);
  CHECK(copy.tensors().labels.empty());
  copy.release();
}

TEST_CASE("a batch whose parts disagree is refused with the reason") {
  InputBench bench;
  const auto make = [&](const InputShape& shape) {
    return ModelInput{bench.host_memory, bench.copy, shape};
  };
  InputShape shape = shape_of(4);
  shape.batch_size = 5;
  CHECK_THROWS_WITH(make(shape), ContainsSubstring("5 examples") && ContainsSubstring("of 4"));
  shape = shape_of(4);
  shape.weighted.weighted = false;
  CHECK_THROWS_WITH(make(shape), ContainsSubstring("weighted") && ContainsSubstring("no weights"));
  shape = shape_of(4);
  shape.sparse.weighted = true;
  CHECK_THROWS_AS(make(shape), std::invalid_argument);
}

TEST_CASE("a batch is copied on the strategy's stream") {
  InputBench bench;
  const ModelInput batch{bench.host_memory, bench.copy, shape_of(2)};
  CHECK(batch.to(*bench.strategy).copied().stream == bench.copy.id());
}

TEST_CASE("pinned memory of a batch serves the next batch once its copy is done") {
  InputBench bench;
  ModelInput first{bench.host_memory, bench.copy, shape_of(1000)};
  const void* const dense = first.contents().dense.data();
  DeviceModelInput copy = first.to(*bench.strategy);
  first.release(copy.copied());
  CHECK(first.batch_size() == 0);
  bench.copy.synchronize();
  const ModelInput next{bench.host_memory, bench.copy, shape_of(1000)};
  CHECK(next.contents().dense.data() == dense);
}
