// Compares the map from addresses to blocks with a hash map, for dense, sparse and single blocks.
#include "memory/page_map.hpp"

#include <bit>
#include <deque>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

#include "memory/block.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using Map = PageMap<Block, &Block::address>;

}  // namespace

TEST_CASE("the page map finds only blocks that were inserted and not erased", "[parts]") {
  for (const std::uintptr_t spread :
       {std::uintptr_t{64} << 10, std::uintptr_t{4} << 20, std::uintptr_t{1} << 46}) {
    std::mt19937_64 random{seed()};
    const std::uintptr_t base = std::uintptr_t{1} << 46;
    Map map;
    std::deque<Block> blocks;
    std::unordered_map<std::uintptr_t, Block*> model;
    const auto draw = [&] { return base + random() % spread / 256 * 256; };
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
      REQUIRE(map.find(reinterpret_cast<void*>(other)) ==
              (expected == model.end() ? nullptr : expected->second));
    }
    for (const auto& [address, block] : model) {
      REQUIRE(map.find(reinterpret_cast<void*>(address)) == block);
      REQUIRE(map.find(reinterpret_cast<void*>(address + 1)) == nullptr);
    }
  }
}

TEST_CASE("the page map needs few bytes for many blocks of one size", "[parts]") {
  const std::size_t size = GENERATE(512, 1536, 2048, 4096, 12288, 16384, 49152, 65536, 524288);
  CAPTURE(size);
  Map map;
  const std::size_t empty = map.bytes();
  std::deque<Block> blocks(4096);
  std::size_t at = std::size_t{1} << 40;
  for (Block& block : blocks) {
    block.address = reinterpret_cast<std::byte*>(std::exchange(at, at + size));
    map.insert(&block);
  }
  const std::size_t branch = std::size_t{16384} * sizeof(void*);
  const bool is_power = std::has_single_bit(size) && size < 65536;
  CHECK(map.bytes() - empty - branch <= (is_power ? 10 : 17) * blocks.size());
  for (const Block& block : blocks) map.erase(&block);
  const std::size_t made = map.bytes();
  for (Block& block : blocks) map.insert(&block);
  CHECK(map.bytes() == made);
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
  const Map map;
  CHECK(map.find(reinterpret_cast<void*>(~std::uintptr_t{0} << 8)) == nullptr);
}

}  // namespace millrace::test
