// The map from addresses to blocks beside a hash, with blocks that lie dense, sparse and alone.
#include "memory/page_map.hpp"

#include <deque>
#include <random>
#include <unordered_map>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {

TEST_CASE("the page map finds the blocks that are in it, and nothing else", "[parts]") {
  for (const std::uintptr_t spread :
       {std::uintptr_t{64} << 10, std::uintptr_t{4} << 20, std::uintptr_t{1} << 46}) {
    std::mt19937_64 random{seed()};
    const std::uintptr_t base = std::uintptr_t{1} << 46;
    PageMap map;
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

TEST_CASE("the page map takes little for many blocks in one page", "[parts]") {
  PageMap map;
  const std::size_t empty = map.bytes();
  std::deque<Block> blocks(4096);
  std::size_t at = std::size_t{1} << 40;
  for (Block& block : blocks) {
    block.address = reinterpret_cast<std::byte*>(std::exchange(at, at + 512));
    map.insert(&block);
  }
  const std::size_t branch = std::size_t{16384} * sizeof(void*);
  CHECK(map.bytes() - empty - branch <= 10 * blocks.size());
  for (const Block& block : blocks) map.erase(&block);
  const std::size_t made = map.bytes();
  for (Block& block : blocks) map.insert(&block);
  CHECK(map.bytes() == made);
}

TEST_CASE("an address beyond 48 bits is in no page map", "[parts]") {
  const PageMap map;
  CHECK(map.find(reinterpret_cast<void*>(~std::uintptr_t{0} << 8)) == nullptr);
}

}  // namespace millrace::test
