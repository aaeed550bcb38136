#include "memory/block_rows.hpp"

#include <cstdint>
#include <iterator>
#include <map>
#include <set>

#include "test/support/catch.hpp"

namespace millrace::test {

TEST_CASE("blocks do not overlap, and the first ones share no cache line", "[parts]") {
  constexpr int kFirst = 496;
  BlockRows rows;
  std::map<std::uintptr_t, int> blocks_of_line;
  std::set<std::uintptr_t> begins;
  for (int i = 0; i < 5000; ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(rows.take());
    const auto after = begins.lower_bound(begin);
    if (after != begins.end()) REQUIRE(*after >= begin + sizeof(Block));
    if (after != begins.begin()) REQUIRE(*std::prev(after) + sizeof(Block) <= begin);
    begins.insert(begin);
    for (std::uintptr_t line = begin / 64; line <= (begin + sizeof(Block) - 1) / 64; ++line) {
      const int blocks = ++blocks_of_line[line];
      REQUIRE(blocks <= (i < kFirst ? 1 : 2));
    }
  }
  CHECK(blocks_of_line.size() <= kFirst * 2 + (5000 - kFirst) / 4 * 7);  // four in seven lines
}

}  // namespace millrace::test
