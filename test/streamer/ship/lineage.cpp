#include "millrace/streamer/lineage.hpp"

#include <stdexcept>

#include "test/support/catch.hpp"

using namespace millrace;

TEST_CASE("a lineage contains the steps that made the tables, and no abandoned steps") {
  Lineage lineage;
  CHECK_FALSE(lineage.contains({1, 0}));
  lineage.extend({1, 50});
  lineage.extend({1, 100});
  lineage.extend({4, 120});
  CHECK(lineage.contains({1, 0}));
  CHECK(lineage.contains({1, 100}));
  CHECK_FALSE(lineage.contains({1, 101}));  // training went back to 1:100
  CHECK_FALSE(lineage.contains({2, 1}));
  CHECK(lineage.contains({4, 120}));
  CHECK(lineage.last() == Version{4, 120});
  CHECK_THROWS_AS(lineage.extend({3, 1}), std::invalid_argument);
}

TEST_CASE("a lineage is read back from its text, and other text is refused") {
  Lineage lineage;
  CHECK(parse_lineage(to_string(lineage)) == lineage);
  lineage.extend({1, 100});
  CHECK(to_string(lineage) == "1:100");
  lineage.extend({18446744073709551615U, 3});
  CHECK(parse_lineage(to_string(lineage)) == lineage);
  for (const char* text : {"1", "1:", ":1", "a:1", "1:2 0:1", "1-2", "99999999999999999999:1"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_lineage(text), std::invalid_argument);
  }
}
