#include "ordering/stable_table.hpp"

#include <cstdint>
#include <vector>

#include "test/support/catch.hpp"

namespace millrace::ordering {
namespace {

struct CountedElement {
  CountedElement() { ++made; }
  ~CountedElement() { --made; }
  std::uint32_t value = 0;
  static inline std::uint32_t made = 0;
};

TEST_CASE("a stable table makes each element when it is added, and does not move it") {
  {
    StableTable<CountedElement> table;
    CHECK(table.find(0) == nullptr);
    std::vector<CountedElement*> places;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      REQUIRE(table.add() == i);
      REQUIRE(CountedElement::made == i + 1);
      table[i].value = i;
      places.push_back(table.find(i));
      REQUIRE(table.find(i + 1) == nullptr);
    }
    for (std::uint32_t i = 0; i < 1000; ++i) {
      REQUIRE(table.find(i) == places[i]);
      REQUIRE(table[i].value == i);
    }
    table.grow_to(1500).value = 7;
    CHECK(table.size() == 1501);
    CHECK(CountedElement::made == 1501);
  }
  CHECK(CountedElement::made == 0);
}

}  // namespace
}  // namespace millrace::ordering
