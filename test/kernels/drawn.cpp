#include "test/kernels/drawn.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::test::kernels {
namespace {

std::int32_t draw_width(std::mt19937_64& random, bool few) {
  constexpr std::int32_t kUsual[] = {4, 8, 16, 32, 64, 128, 256};
  switch (few ? random() % 4 : 3) {
    case 0:
      return kUsual[random() % std::size(kUsual)];
    case 1:
      return static_cast<std::int32_t>(1 + random() % 300);
    default:
      return static_cast<std::int32_t>(1 + random() % 40);
  }
}

std::int64_t draw_rows(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return 1;
    default:
      return static_cast<std::int64_t>(1 + random() % 60);
  }
}

std::size_t draw_length(std::mt19937_64& random, std::size_t usual) {
  if (random() % 200 == 0) return random() % 400;
  return random() % usual;
}

std::int64_t draw_id(std::mt19937_64& random, std::int64_t rows, bool strays) {
  if (rows == 0 || (strays && random() % 40 == 0)) {
    const auto by = static_cast<std::int64_t>(random() % 3);
    return random() % 2 == 0 ? rows + by : -1 - by;
  }
  if (random() % 3 == 0) return rows / 2;
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows));
}

}  // namespace

DrawnTables draw_tables(std::mt19937_64& random, std::size_t features) {
  DrawnTables drawn;
  model::Lookup lookup;
  for (std::size_t f = 0; f < features; ++f) {
    if (f == 0 || random() % 3 != 0) {
      lookup.table = f == 0 ? 0 : lookup.table + 1;
      lookup.weights = static_cast<std::int64_t>(drawn.scalars);
      lookup.first_row = static_cast<std::int64_t>(drawn.rows);
      lookup.rows = draw_rows(random);
      lookup.width = draw_width(random, features < 50);
      lookup.mean = random() % 2 == 0 ? 1 : 0;
      drawn.rows += static_cast<std::size_t>(lookup.rows);
      drawn.scalars += static_cast<std::size_t>(lookup.rows * lookup.width);
      drawn.widest = std::max(drawn.widest, static_cast<std::size_t>(lookup.width));
    }
    lookup.column = static_cast<std::int32_t>(drawn.columns);
    drawn.columns += static_cast<std::size_t>(lookup.width);
    drawn.lookups.push_back(lookup);
  }
  return drawn;
}

DrawnTables draw_tables(std::mt19937_64& random) {
  return draw_tables(random, random() % 12 == 0 ? 128 + random() % 200 : 1 + random() % 12);
}

template <typename Id, typename Offset>
DrawnBags<Id, Offset> draw_bags(std::mt19937_64& random, const DrawnTables& tables, bool strays) {
  const std::size_t features = tables.lookups.size();
  DrawnBags<Id, Offset> bags{.batch = random() % (features > 50 ? 4 : 60)};
  const std::size_t usual = 1 + random() % 7;
  bags.offsets.push_back(0);
  for (const model::Lookup& lookup : tables.lookups) {
    for (std::size_t b = 0; b < bags.batch; ++b) {
      const std::size_t length = draw_length(random, usual);
      for (std::size_t i = 0; i < length; ++i) {
        bags.ids.push_back(static_cast<Id>(draw_id(random, lookup.rows, strays)));
      }
      bags.offsets.push_back(static_cast<Offset>(bags.ids.size()));
    }
  }
  bags.ids.shrink_to_fit();
  bags.offsets.shrink_to_fit();
  return bags;
}
template DrawnBags<std::int32_t, std::int32_t> draw_bags(std::mt19937_64&, const DrawnTables&,
                                                         bool);
template DrawnBags<std::int32_t, std::int64_t> draw_bags(std::mt19937_64&, const DrawnTables&,
                                                         bool);
template DrawnBags<std::int64_t, std::int32_t> draw_bags(std::mt19937_64&, const DrawnTables&,
                                                         bool);
template DrawnBags<std::int64_t, std::int64_t> draw_bags(std::mt19937_64&, const DrawnTables&,
                                                         bool);

std::vector<float> draw_numbers(std::mt19937_64& random, std::size_t count) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = (static_cast<float>(random() % 33) - 16) / 8;
  return numbers;
}

std::vector<std::int32_t> draw_slots(std::mt19937_64& random, std::size_t count,
                                     std::size_t slots) {
  std::vector<std::int32_t> drawn(count);
  for (std::int32_t& slot : drawn) slot = static_cast<std::int32_t>(random() % (slots + 1)) - 1;
  return drawn;
}

double worst_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double of = expected[i];
    const double off = std::abs(found[i] - of) / (0.01 + std::abs(of));
    if (!(off <= worst)) worst = off;  // NaN counts as worst
  }
  return worst;
}

}  // namespace millrace::test::kernels
