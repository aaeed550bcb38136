#include "memory/block_rows.hpp"

#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/host_memory/failing_host_memory.hpp"

namespace millrace::test {
namespace {

struct RowItem {
  RowItem() { ++made; }
  ~RowItem() { --made; }
  inline static std::size_t made = 0;
};

}  // namespace

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

TEST_CASE("items of rows are zero, stay where they are, and take few allocations", "[parts]") {
  Rows<std::uint64_t, 8, 64> rows;
  CHECK(rows.allocated() == 0);
  std::vector<std::uint64_t*> items;
  std::size_t allocations = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::size_t before = rows.allocated();
    std::uint64_t* const item = items.emplace_back(rows.take());
    REQUIRE(std::exchange(*item, i + 1) == 0);
    REQUIRE(rows.taken() == i + 1);
    REQUIRE(rows.allocated() >= rows.taken());
    REQUIRE(rows.allocated() - rows.taken() < 64);
    if (rows.allocated() != before) ++allocations;
  }
  CHECK(allocations == 18);  // 8, 16, 32, then 64 at a time
  for (std::uint64_t i = 0; i < 1000; ++i) REQUIRE(*items[i] == i + 1);
}

TEST_CASE("rows make each item when it is taken, and destroy what they made", "[parts]") {
  {
    Rows<RowItem, 8, 64> rows;
    for (std::size_t i = 0; i < 200; ++i) {
      REQUIRE(rows.take() != nullptr);
      REQUIRE(RowItem::made == i + 1);
    }
  }
  CHECK(RowItem::made == 0);
}

TEST_CASE("rows without host memory return items again when there is some", "[parts]") {
  std::uint64_t number = 1;
  for (bool failed = true; failed; ++number) {
    Rows<std::uint64_t, 8, 64> rows;
    std::set<std::uint64_t*> items;
    std::size_t refused = 0;
    {
      const FailingHostMemory failing{number, 3};
      for (int i = 0; i < 100; ++i) {
        std::uint64_t* item = nullptr;
        try {
          item = rows.take();
        } catch (const std::bad_alloc&) {
          ++refused;
          continue;
        }
        const FailingHostMemory::Paused paused;
        items.insert(item);
      }
    }
    failed = FailingHostMemory::failed();
    REQUIRE(items.size() == 100 - refused);
    REQUIRE(rows.taken() == items.size());
    REQUIRE(items.insert(rows.take()).second);
  }
  CHECK(number > 2);
}

}  // namespace millrace::test
