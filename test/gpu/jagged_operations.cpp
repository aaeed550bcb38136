#include "millrace/pipeline/data/jagged_operations.hpp"

#include <algorithm>
#include <random>

#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

struct Lists {
  JaggedLayout layout;
  std::vector<std::int64_t> lengths;
};

/// Draws lists with many keys and examples, empty bags, and keys without values.
Lists drawn(std::mt19937_64& random, std::size_t keys, std::size_t batch_size, IndexType type) {
  Lists lists{.layout = {.batch_size = batch_size,
                         .weighted = random() % 2 == 0,
                         .value_type = type,
                         .length_type = random() % 2 == 0 ? IndexType::int32 : IndexType::int64}};
  std::vector<std::string> names;
  for (std::size_t key = 0; key < keys; ++key) {
    names.push_back("f" + std::to_string(key));
    const std::size_t longest = random() % 8;
    std::size_t count = 0;
    for (std::size_t example = 0; example < batch_size; ++example) {
      const std::size_t length = longest == 0 ? 0 : random() % longest;
      lists.lengths.push_back(static_cast<std::int64_t>(length));
      count += length;
    }
    lists.layout.counts.push_back(count);
  }
  lists.layout.keys = make_keys(std::move(names));
  return lists;
}

using Bytes = std::vector<std::vector<std::byte>>;

/// Runs all operations one by one on a device and reads every result back.
class Runner {
 public:
  explicit Runner(Device& device) : device_(device) {}

  Bytes run(const Lists& lists, const std::vector<std::size_t>& order, std::size_t cut) {
    const JaggedScope on_host{.memory = host_memory_, .stream = stream_};
    const KeyedJaggedTensor pinned = empty_like(on_host, lists.layout);
    fill(pinned, lists);
    const JaggedScope scope{.memory = memory_, .stream = stream_};
    const KeyedJaggedTensor input = to_device(scope, pinned);
    const KeyedJaggedTensor permuted = permute(scope, input, order);
    const auto parts = split(scope, permuted, std::vector{cut, order.size() - cut});
    const KeyedJaggedTensor whole = concat(scope, parts);
    Bytes bytes;
    for (const auto* result : {&input, &permuted, parts.data(), parts.data() + 1, &whole}) {
      read(*result, bytes);
    }
    return bytes;
  }

 private:
  void fill(const KeyedJaggedTensor& pinned, const Lists& lists) {
    std::mt19937_64 random{5};
    for (const BatchTensor* tensor : {&pinned.values(), &pinned.weights(), &pinned.offsets()}) {
      for (unsigned char& value : tensor->as<unsigned char>()) {
        value = static_cast<unsigned char>(random());
      }
    }
    for (std::size_t bag = 0; bag < lists.lengths.size(); ++bag) {
      if (lists.layout.length_type == IndexType::int32) {
        pinned.lengths().as<std::int32_t>()[bag] = static_cast<std::int32_t>(lists.lengths[bag]);
      } else {
        pinned.lengths().as<std::int64_t>()[bag] = lists.lengths[bag];
      }
    }
  }

  void read(const KeyedJaggedTensor& tensor, Bytes& bytes) {
    for (const BatchTensor* part :
         {&tensor.lengths(), &tensor.offsets(), &tensor.values(), &tensor.weights()}) {
      const BatchTensor host{host_memory_, part->bytes(), stream_};
      if (!part->empty()) {
        device_.copy(host.data(), part->data(), part->bytes(), CopyKind::device_to_host,
                     stream_.handle());
      }
      stream_.synchronize();
      const auto read = host.as<std::byte>();
      bytes.emplace_back(read.begin(), read.end());
    }
  }

  Device& device_;
  OrderedDevice ordered_{device_};
  Stream stream_{ordered_, {.name = "main"}};
  DeviceSource source_{device_};
  PinnedSource pinned_{device_};
  CachingAllocator memory_{ordered_, source_, Policy::millrace()};
  CachingAllocator host_memory_{ordered_, pinned_, Policy::pinned()};
};

}  // namespace

namespace {

void check_operations(std::initializer_list<std::size_t> batch_sizes,
                      std::initializer_list<std::size_t> key_counts) {
  const auto gpu = require_gpu();
  VirtualMachine machine;
  Runner on_gpu{*gpu}, on_host{machine.add_device()};
  std::mt19937_64 random{test::seed()};
  for (const std::size_t batch_size : batch_sizes) {
    for (const std::size_t keys : key_counts) {
      const Lists lists =
          drawn(random, keys, batch_size, keys % 2 == 0 ? IndexType::int32 : IndexType::int64);
      std::vector<std::size_t> order(keys);
      for (std::size_t i = 0; i < keys; ++i) order[i] = keys - 1 - i;
      std::shuffle(order.begin(), order.end(), random);
      const std::size_t cut = random() % (keys + 1);
      INFO(keys << " keys, " << batch_size << " examples, cut at " << cut);
      CHECK(on_gpu.run(lists, order, cut) == on_host.run(lists, order, cut));
    }
  }
}

}  // namespace

TEST_CASE("jagged operations of CUDA give the same bytes as the host's", "[gpu]") {
  check_operations({0, 1, 3, 100, 5000}, {1, 2, 7, 400});
}

// For compute-sanitizer.
TEST_CASE("small jagged operations of CUDA give the same bytes as the host's", "[gpu][kernels]") {
  check_operations({1, 100}, {1, 40});
}
