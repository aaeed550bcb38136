#include "millrace/pipeline/data/input_schema.hpp"

#include <rapidcheck.h>

#include <optional>
#include <tuple>

#include "test/pipeline/data/jagged_support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::size_t kRows = 50;

InputSchema schema_for(const JaggedLists& lists) {
  InputSchema schema{.value_type = lists.value_type, .length_type = lists.length_type};
  for (const auto& feature : lists.features) {
    schema.sparse.push_back({feature.key, "table of " + feature.key, kRows});
  }
  return schema;
}

/// The first invalid id: its feature, the id, and the index of its example.
using Wrong = std::tuple<std::string, std::int64_t, std::size_t>;

std::optional<Wrong> first_wrong(const JaggedLists& lists) {
  for (const auto& feature : lists.features) {
    for (std::size_t example = 0; example < feature.bags.size(); ++example) {
      for (const std::int64_t id : feature.bags[example]) {
        if (id < 0 || id >= static_cast<std::int64_t>(kRows))
          return Wrong{feature.key, id, example};
      }
    }
  }
  return std::nullopt;
}

/// The invalid id that check_ids reports. Also checks the error's message.
std::optional<Wrong> problem_of(const InputTensors& batch, const InputSchema& schema) {
  try {
    check_ids(batch, schema);
    return std::nullopt;
  } catch (const InvalidIdError& error) {
    CHECK_THAT(error.what(),
               ContainsSubstring("id " + std::to_string(error.id()) + " of feature '" +
                                 error.feature().name + "'") &&
                   ContainsSubstring("'" + error.feature().table + "', which has 50"));
    return Wrong{error.feature().name, error.id(), error.example()};
  }
}

}  // namespace

TEST_CASE("the first id that is not a row of its table is named with its example") {
  REQUIRE(rc::check([] {
    JaggedLists lists = drawn_lists();
    for (auto& feature : lists.features) {
      for (auto& bag : feature.bags) {
        for (std::int64_t& id : bag) {
          const bool wrong = *rc::gen::inRange(0, 12) == 0;
          id = wrong ? *rc::gen::element<std::int64_t>(-1, -7, kRows, 1'000'000)
                     : *rc::gen::inRange<std::int64_t>(0, kRows);
        }
      }
    }
    JaggedBench bench;
    const KeyedJaggedTensor ids = bench.pinned_copy(lists);
    RC_ASSERT(problem_of({.sparse = ids}, schema_for(lists)) == first_wrong(lists));
  }));
}
