// Compares the map from addresses to blocks with a hash map, for dense, sparse and single blocks.
#include "memory/page_map.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <random>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "memory/block.hpp"
#include "test/support/catch.hpp"
#include "test/support/host_memory/failing_host_memory.hpp"
#include "test/support/seed.hpp"
#include "test/support/steps.hpp"

namespace millrace::test {
namespace {

using Map = PageMap<Block, &Block::address>;

// Bytes of the map's branches, one for each GiB, up to the address `end`.
std::size_t branch_bytes(std::size_t begin, std::size_t end) {
  return (((end - 1) >> 30) - (begin >> 30) + 1) * 512 * sizeof(void*);
}

}  // namespace

TEST_CASE("the page map finds only blocks that were inserted and not erased", "[parts]") {
  struct Spread {
    std::uintptr_t bytes, multiple_of;
  };
  for (const auto& [spread, multiple_of] :
       {Spread{std::uintptr_t{64} << 10, 256}, Spread{std::uintptr_t{4} << 20, 256},
        Spread{std::uintptr_t{1} << 46, 256}, Spread{512, 1}, Spread{std::uintptr_t{2} << 20, 1}}) {
    CAPTURE(spread, multiple_of);
    std::mt19937_64 random{seed()};
    const std::uintptr_t base = std::uintptr_t{1} << 46;
    Map map;
    std::deque<Block> blocks;
    std::unordered_map<std::uintptr_t, Block*> model;
    // Half of the addresses are near each other, so that many differ in low bits only.
    const auto draw = [&, spread = spread, multiple_of = multiple_of] {
      const std::uintptr_t within = random() % 2 == 0 ? spread : std::min(spread, spread / 16 + 64);
      return base + random() % within / multiple_of * multiple_of;
    };
    for (int step = 0; step < 20000; ++step) {
      const std::uintptr_t address = draw();
      const auto known = model.find(address);
      if (known != model.end()) {
        map.erase(known->second);
        model.erase(known);
      } else {
        Block& block = blocks.emplace_back();
        block.address = reinterpret_cast<std::byte*>(address);
        map.insert(&block);
        model[address] = &block;
      }
      const std::uintptr_t other = draw();
      const auto expected = model.find(other);
      const Block* found = nullptr;
      REQUIRE(steps([&] { found = map.find(reinterpret_cast<void*>(other)); }) <= 21);
      REQUIRE(found == (expected == model.end() ? nullptr : expected->second));
    }
    for (const auto& [address, block] : model) {
      REQUIRE(map.find(reinterpret_cast<void*>(address)) == block);
      if (multiple_of > 1) REQUIRE(map.find(reinterpret_cast<void*>(address + 1)) == nullptr);
    }
  }
}

TEST_CASE("the page map needs few bytes for many blocks of one size", "[parts]") {
  const std::size_t size = GENERATE(512, 1536, 2048, 4096, 12288, 16384, 49152, 65536, 524288);
  CAPTURE(size);
  Map map;
  CHECK(map.bytes() == 0);
  std::deque<Block> blocks(4096);
  const std::size_t begin = std::size_t{1} << 40;
  std::size_t at = begin;
  for (Block& block : blocks) {
    block.address = reinterpret_cast<std::byte*>(std::exchange(at, at + size));
    map.insert(&block);
  }
  const bool is_power = std::has_single_bit(size) && size < 65536;
  CHECK(map.bytes() - branch_bytes(begin, at) <= (is_power ? 10 : 17) * blocks.size());
  for (const Block& block : blocks) map.erase(&block);
  const std::size_t made = map.bytes();
  for (Block& block : blocks) map.insert(&block);
  CHECK(map.bytes() == made);
}

TEST_CASE("blocks of mixed sizes need few nodes of the page map, and short ways", "[parts]") {
  struct Row {
    std::size_t most_units;  // of 512 bytes; sizes are uniform
    double most_steps, most_bytes;
  };
  const Row row = GENERATE(Row{1, 4.2, 11}, Row{8, 4.7, 29}, Row{128, 2.7, 26});
  const bool in_order = GENERATE(true, false);
  CAPTURE(row.most_units, in_order);
  std::mt19937_64 random{seed()};
  std::deque<Block> blocks(20000);
  std::vector<Block*> order;
  const std::size_t begin = std::size_t{1} << 40;
  std::size_t at = begin;
  for (Block& block : blocks) {
    block.address = reinterpret_cast<std::byte*>(at);
    at += 512 * (1 + random() % row.most_units);
    order.push_back(&block);
  }
  if (!in_order) std::shuffle(order.begin(), order.end(), random);
  Map map;
  for (Block* const block : order) map.insert(block);
  const auto count = static_cast<double>(blocks.size());
  CHECK(static_cast<double>(map.bytes() - branch_bytes(begin, at)) <= row.most_bytes * count);
  const auto taken = steps([&] {
    for (const Block& block : blocks) REQUIRE(map.find(block.address) == &block);
  });
  CHECK(static_cast<double>(taken) <= row.most_steps * count);
}

TEST_CASE("without host memory the page map still erases, and inserts later", "[parts]") {
  const std::uintptr_t base = std::uintptr_t{1} << 40;
  std::uint64_t number = 1;
  for (bool failed = true; failed; ++number) {
    Map map;
    std::deque<Block> blocks(512);
    std::vector<Block*> there;
    std::mt19937_64 random{seed()};
    std::set<std::uintptr_t> taken;
    for (Block& block : blocks) {
      std::uintptr_t address = 0;
      do address = base + random() % (4 << 20);
      while (!taken.insert(address).second);
      block.address = reinterpret_cast<std::byte*>(address);
    }
    {
      const FailingHostMemory failing{number, 3};
      for (Block& block : blocks) {
        try {
          map.insert(&block);
        } catch (const std::bad_alloc&) {
          continue;
        }
        const FailingHostMemory::Paused paused;
        there.push_back(&block);
      }
      for (std::size_t i = 0; i < there.size(); i += 2) map.erase(there[i]);
    }
    failed = FailingHostMemory::failed();
    for (std::size_t i = 0; i < there.size(); ++i) {
      REQUIRE(map.find(there[i]->address) == (i % 2 == 0 ? nullptr : there[i]));
    }
    for (std::size_t i = 0; i < there.size(); i += 2) map.insert(there[i]);
    for (const Block* const block : there) REQUIRE(map.find(block->address) == block);
  }
  CHECK(number > 2);
}

TEST_CASE("a visit of the page map meets the blocks between two addresses in order", "[parts]") {
  for (const std::uintptr_t spread :
       {std::uintptr_t{64} << 10, std::uintptr_t{64} << 20, std::uintptr_t{1} << 38}) {
    std::mt19937_64 random{seed()};
    const std::uintptr_t base = std::uintptr_t{1} << 45;
    Map map;
    std::deque<Block> blocks;
    std::set<std::uintptr_t> model;
    const auto draw = [&] { return base + random() % spread / 256 * 256; };
    for (int i = 0; i < 300; ++i) {
      const std::uintptr_t address = draw();
      if (!model.insert(address).second) continue;
      blocks.emplace_back().address = reinterpret_cast<std::byte*>(address);
      map.insert(&blocks.back());
    }
    for (int i = 0; i < 100; ++i) {
      const auto [begin, end] = std::minmax({draw(), draw()});
      std::vector<std::uintptr_t> met;
      map.visit(reinterpret_cast<void*>(begin), reinterpret_cast<void*>(end),
                [&](const Block& block) {
                  met.push_back(reinterpret_cast<std::uintptr_t>(block.address));
                });
      REQUIRE(met == std::vector<std::uintptr_t>(model.lower_bound(begin), model.lower_bound(end)));
    }
  }
}

TEST_CASE("an address beyond 48 bits is in no page map", "[parts]") {
  Map map;
  Block beyond;
  for (const unsigned bit : {48, 63}) {
    beyond.address = reinterpret_cast<std::byte*>(std::uintptr_t{1} << bit);
    CHECK(map.find(beyond.address) == nullptr);
    CHECK_THROWS_AS(map.insert(&beyond), std::out_of_range);
  }
  beyond.address = reinterpret_cast<std::byte*>((std::uintptr_t{1} << 48) - 1);
  map.insert(&beyond);
  CHECK(map.find(beyond.address) == &beyond);
  const std::size_t branch = map.bytes();
  Block other;  // its branch has the same place
  other.address = reinterpret_cast<std::byte*>((std::uintptr_t{1} << 47) - 1);
  map.insert(&other);
  CHECK(map.find(other.address) == &other);
  CHECK(map.find(beyond.address) == &beyond);
  CHECK(map.bytes() > 2 * branch);  // there is a table for it as well
}

}  // namespace millrace::test
