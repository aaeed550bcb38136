#include <random>
#include <vector>

#include "model/host/vector.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::model::host;

namespace {

constexpr std::size_t kLongest = 75;

std::vector<float> drawn(std::size_t count, unsigned which) {
  std::mt19937 random{static_cast<unsigned>(test::seed()) + which};
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random()) / 1e9F - 2;
  return values;
}

/// Four partial sums side by side, then the remaining elements. The library documents this order.
float product(const std::vector<float>& a, const std::vector<float>& b) {
  const std::size_t whole = a.size() / 4 * 4;
  float sums[4] = {};
  for (std::size_t i = 0; i < whole; ++i) sums[i % 4] += a[i] * b[i];
  float sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  for (std::size_t i = whole; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

TEST_CASE("a dot product has one order of summation, for fixed and for variable lengths") {
  for (std::size_t count = 0; count <= kLongest; ++count) {
    const std::vector<float> a = drawn(count, 1), b = drawn(count, 2);
    INFO(count);
    with_length(count,
                [&](auto length) { CHECK(dot(a.data(), b.data(), length) == product(a, b)); });
  }
}

TEST_CASE("a sum of vectors has the bits of a plain loop, and writes nothing past the end") {
  for (std::size_t count = 0; count <= kLongest; ++count) {
    std::vector<float> sum(count + 1, 7.0F), plain(count);
    with_length(count, [&](auto length) {
      VectorSum<float, decltype(length)> adding{sum.data(), length};
      for (unsigned which = 0; which < 5; ++which) {
        const std::vector<float> one = drawn(count, which), other = drawn(count, which + 9);
        adding.add(one.data());
        adding.add_scaled(other.data(), 0.3F);
        for (std::size_t i = 0; i < count; ++i) {
          plain[i] += one[i];
          plain[i] += 0.3F * other[i];
        }
      }
      adding.scale(1.1F);
      for (float& value : plain) value *= 1.1F;
      CHECK(std::vector<float>(adding.data(), adding.data() + count) == plain);
      adding.store();
    });
    INFO(count);
    CHECK(sum.back() == 7.0F);
    sum.pop_back();
    CHECK(sum == plain);
  }
}
