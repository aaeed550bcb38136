#include "millrace/pipeline/data/jagged_operations.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "test/pipeline/data/jagged_support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::size_t> drawn_permutation(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[*rc::gen::inRange<std::size_t>(0, left)]);
  }
  return order;
}

std::vector<std::size_t> inverse(const std::vector<std::size_t>& order) {
  std::vector<std::size_t> result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) result[order[i]] = i;
  return result;
}

/// Sizes that add up to `count`; some may be 0.
std::vector<std::size_t> drawn_cuts(std::size_t count) {
  std::vector<std::size_t> sizes;
  for (int cuts = *rc::gen::inRange(0, 5); cuts > 0; --cuts) {
    sizes.push_back(*rc::gen::inRange<std::size_t>(0, count + 1));
    count -= sizes.back();
  }
  sizes.push_back(count);
  return sizes;
}

JaggedLists two_keys(std::size_t examples = 2) {
  JaggedLists lists{.batch_size = examples};
  for (const char* key : {"a", "b"}) {
    lists.features.push_back({key, std::vector<std::vector<std::int64_t>>(examples, {1, 2}),
                              std::vector<std::vector<float>>(examples)});
  }
  return lists;
}

}  // namespace

TEST_CASE("a jagged tensor is unchanged after a copy to the device and back") {
  JaggedBench bench;
  CHECK(rc::check([&] {
    const JaggedLists lists = drawn_lists();
    RC_ASSERT(bench.download(bench.upload(lists)) == lists);
  }));
}

TEST_CASE("permute puts the keys into the given order, and may leave keys out") {
  JaggedBench bench;
  CHECK(rc::check([&] {
    const JaggedLists lists = drawn_lists();
    std::vector<std::size_t> order = drawn_permutation(lists.features.size());
    order.resize(*rc::gen::inRange<std::size_t>(0, order.size() + 1));
    JaggedLists expected{lists};
    expected.features.clear();
    for (const std::size_t position : order) expected.features.push_back(lists.features[position]);
    RC_ASSERT(bench.download(permute(bench.scope(), bench.upload(lists), order)) == expected);
  }));
}

TEST_CASE("a permutation and its inverse change nothing") {
  JaggedBench bench;
  CHECK(rc::check([&] {
    const JaggedLists lists = drawn_lists();
    const auto order = drawn_permutation(lists.features.size());
    const auto there = permute(bench.scope(), bench.upload(lists), order);
    RC_ASSERT(bench.download(permute(bench.scope(), there, inverse(order))) == lists);
  }));
}

TEST_CASE("split gives each part its number of keys, in order") {
  JaggedBench bench;
  CHECK(rc::check([&] {
    const JaggedLists lists = drawn_lists();
    const auto cuts = drawn_cuts(lists.features.size());
    const auto parts = split(bench.scope(), bench.upload(lists), cuts);
    RC_ASSERT(parts.size() == cuts.size());
    auto next = lists.features.begin();
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const auto end = next + static_cast<std::ptrdiff_t>(cuts[part]);
      if (cuts[part] == 0) {
        RC_ASSERT(parts[part].empty());
        continue;
      }
      JaggedLists expected{lists};
      expected.features.assign(next, end);
      next = end;
      RC_ASSERT(bench.download(parts[part]) == expected);
    }
  }));
}

TEST_CASE("concat of the parts of a split gives the original tensor") {
  JaggedBench bench;
  CHECK(rc::check([&] {
    const JaggedLists lists = drawn_lists();
    const auto parts = split(bench.scope(), bench.upload(lists), drawn_cuts(lists.features.size()));
    RC_ASSERT(bench.download(concat(bench.scope(), parts)) == lists);
  }));
}

TEST_CASE("concat joins tensors of different memory, one after the other") {
  JaggedBench bench;
  CHECK(rc::check([&] {
    JaggedLists expected = drawn_lists();
    std::vector<KeyedJaggedTensor> parts{bench.upload(expected)};
    for (int more = *rc::gen::inRange(0, 3); more > 0; --more) {
      const JaggedLists next =
          drawn_lists(expected.batch_size, expected.weighted, expected.value_type,
                      expected.length_type, expected.features.size());
      parts.push_back(bench.upload(next));
      expected.features.insert(expected.features.end(), next.features.begin(), next.features.end());
    }
    RC_ASSERT(bench.download(concat(bench.scope(), parts)) == expected);
  }));
}

TEST_CASE("offsets are the prefix sums of the lengths") {
  JaggedBench bench;
  CHECK(rc::check([&] {
    const JaggedLists lists = drawn_lists();
    const KeyedJaggedTensor given = bench.upload(lists);
    const KeyedJaggedTensor found = from_lengths(
        bench.scope(), given.layout(),
        {.values = given.values(), .lengths = given.lengths(), .weights = given.weights()});
    RC_ASSERT(bench.download(found) == lists);
  }));
}

TEST_CASE("the parts of a split keep their shared memory, and the last part frees it") {
  JaggedBench bench;
  std::vector<KeyedJaggedTensor> parts;
  {
    const KeyedJaggedTensor whole = bench.upload(two_keys());
    parts = split(bench.scope(), whole, std::vector<std::size_t>{1, 1});
  }
  CHECK(bench.download(parts[1]).features[0] == two_keys().features[1]);
  parts.erase(parts.begin());
  CHECK(bench.download(parts[0]).features[0] == two_keys().features[1]);
  parts.clear();
  CHECK(bench.memory.statistics().bytes.allocated.current == 0);
}

TEST_CASE("jagged operations only enqueue work on the stream, and never wait for it") {
  JaggedBench bench;
  const KeyedJaggedTensor tensor = bench.upload(two_keys());
  bench.main.synchronize();
  Gate gate = bench.device.enqueue_gate(bench.main.handle());
  const std::uint64_t synchronized = bench.device.calls(Call::synchronize_stream) +
                                     bench.device.calls(Call::synchronize_event) +
                                     bench.device.calls(Call::synchronize_device);
  const auto swapped = permute(bench.scope(), tensor, std::vector<std::size_t>{1, 0});
  const auto parts = split(bench.scope(), swapped, std::vector<std::size_t>{1, 1});
  const auto whole = concat(bench.scope(), parts);
  CHECK(bench.device.pending() > 0);
  CHECK(synchronized == bench.device.calls(Call::synchronize_stream) +
                            bench.device.calls(Call::synchronize_event) +
                            bench.device.calls(Call::synchronize_device));
  gate.open();
  CHECK(bench.download(whole).features[0] == two_keys().features[1]);
}

TEST_CASE("memory that another stream reads is not reused before that read") {
  const bool read_by_copy = GENERATE(false, true);
  JaggedBench bench;
  auto tensor = std::make_unique<KeyedJaggedTensor>(bench.upload(two_keys()));
  bench.copy.wait_stream(bench.main);
  bench.copy.synchronize();
  Gate gate = bench.device.enqueue_gate(bench.copy.handle());
  const JaggedScope on_copy{.memory = bench.memory, .stream = bench.copy};
  KeyedJaggedTensor swapped;
  if (read_by_copy) swapped = permute(on_copy, *tensor, std::vector<std::size_t>{1, 0});
  const void* const values = tensor->values().data();
  const std::size_t bytes = tensor->values().bytes();
  tensor.reset();
  std::vector<BatchTensor> next;
  for (int i = 0; i < 4; ++i) next.emplace_back(bench.memory, bytes, bench.main);
  const bool used_again = std::ranges::any_of(
      next, [values](const BatchTensor& other) { return other.data() == values; });
  CHECK(used_again == !read_by_copy);
  gate.open();
}

TEST_CASE("cost-only jagged operations take time on a device without data") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device({.data = false});
  OrderedDevice ordered{device};
  Stream main{ordered};
  DeviceSource source{device};
  CachingAllocator memory{ordered, source, Policy::millrace()};
  const JaggedScope scope{.memory = memory, .stream = main, .cost_only = true};
  JaggedLayout layout{.keys = make_keys({"a", "b"}),
                      .batch_size = std::size_t{1} << 20,
                      .counts = {std::size_t{1} << 30, std::size_t{1} << 29}};
  const KeyedJaggedTensor large = empty_like(scope, layout);
  const KeyedJaggedTensor swapped = permute(scope, large, std::vector<std::size_t>{1, 0});
  CHECK(swapped.value_count(0) == std::size_t{1} << 29);
  const Nanoseconds before = machine.now();
  main.synchronize();
  CHECK(machine.now() - before > std::chrono::milliseconds{4});  // 2 x 12 GiB at 4.8 TB/s
}

TEST_CASE("an invalid layout is refused with the reason") {
  JaggedBench bench;
  const auto make = [&](const JaggedLayout& layout) { return empty_like(bench.scope(), layout); };
  CHECK_THROWS_WITH(make({.keys = make_keys({"a"}), .batch_size = 1, .counts = {1, 2}}),
                    ContainsSubstring("1 keys") && ContainsSubstring("counts of 2"));
  CHECK_THROWS_WITH(make({.keys = make_keys({"a", "a"}), .batch_size = 1, .counts = {1, 2}}),
                    ContainsSubstring("'a' occurs twice"));
  CHECK_THROWS_WITH(make({.keys = make_keys({"a"}), .counts = {3}}),
                    ContainsSubstring("no examples has 3 values"));
  const std::size_t many = std::size_t{std::numeric_limits<std::int32_t>::max()} + 1;
  CHECK_THROWS_WITH(make({.keys = make_keys({"a"}), .batch_size = 1, .counts = {many}}),
                    ContainsSubstring("int32") && ContainsSubstring("int64"));
}

TEST_CASE("memory that does not match the layout is refused with both sizes") {
  JaggedBench bench;
  const KeyedJaggedTensor tensor = bench.upload(two_keys());
  auto layout = tensor.layout();
  layout.counts[0] += 1;
  CHECK_THROWS_WITH(
      (KeyedJaggedTensor{
          layout,
          {.values = tensor.values(), .lengths = tensor.lengths(), .offsets = tensor.offsets()}}),
      ContainsSubstring("values") && ContainsSubstring("64 bytes") && ContainsSubstring("72"));
}

TEST_CASE("jagged operations refuse shapes that disagree, and name them") {
  JaggedBench bench;
  const KeyedJaggedTensor tensor = bench.upload(two_keys());
  using Sizes = std::vector<std::size_t>;
  CHECK_THROWS_WITH(permute(bench.scope(), tensor, Sizes{0, 2}),
                    ContainsSubstring("key 2 does not exist"));
  CHECK_THROWS_WITH(permute(bench.scope(), tensor, Sizes{0, 0}), ContainsSubstring("'a' (0)"));
  CHECK_THROWS_WITH(split(bench.scope(), tensor, Sizes{1, 2}),
                    ContainsSubstring("3 keys") && ContainsSubstring("has 2"));

  JaggedLists other = two_keys(3);
  other.features[0].key = "c";
  other.features[1].key = "d";
  const auto join = [&](const JaggedLists& lists) {
    return concat(bench.scope(),
                  std::vector<KeyedJaggedTensor>{tensor, KeyedJaggedTensor{}, bench.upload(lists)});
  };
  CHECK_THROWS_WITH(join(other), ContainsSubstring("part 2 is a batch of 3 examples"));
  other = two_keys();
  CHECK_THROWS_WITH(join(other), ContainsSubstring("'a' occurs twice"));
  other.value_type = IndexType::int32;
  CHECK_THROWS_WITH(join(other), ContainsSubstring("int32 values"));
  CHECK_THROWS_WITH(copy_into(bench.scope(), tensor, bench.upload(two_keys(3))),
                    ContainsSubstring("2 examples") && ContainsSubstring("3 examples"));
}

TEST_CASE("a key is found by its name, and an unknown name is refused with the list of keys") {
  JaggedBench bench;
  const KeyedJaggedTensor tensor = bench.upload(two_keys());
  CHECK(tensor.find("b") == 1);
  CHECK_THROWS_WITH(tensor.find("z"), ContainsSubstring("'z'") && ContainsSubstring("a, b"));
}
