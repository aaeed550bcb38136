#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/pipeline/kernels/fields.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::model;

namespace {

struct Inner {
  ArrayView<const double> second;
  std::size_t number = 0;
  ArrayView<float> third;
};

struct Arguments {
  ArrayView<float> first;
  Inner inner;
  bool flag = false;
  ArrayView<const int> fourth;
};

struct WithoutViews {
  double number = 0;
  Arguments* elsewhere = nullptr;
};

/// Addresses and accesses of all views, in the order of for_each_view.
template <typename Value>
std::vector<std::pair<const void*, Access>> views_of(Value& value) {
  std::vector<std::pair<const void*, Access>> views;
  for_each_view(value, [&](const auto& view) { views.emplace_back(view.address, view.access); });
  return views;
}

}  // namespace

TEST_CASE("a kernel's views are found in nested structs, in field order") {
  std::vector<float> first(1), third(3);
  const std::vector<double> second(2);
  const std::vector<int> fourth(4);
  Arguments arguments{.first = writes(first),
                      .inner = {.second = reads(second), .third = updates(third)},
                      .fourth = reads(fourth)};
  CHECK(views_of(arguments) ==
        std::vector<std::pair<const void*, Access>>{{first.data(), Access::write},
                                                    {second.data(), Access::read},
                                                    {third.data(), Access::read_write},
                                                    {fourth.data(), Access::read}});
}

TEST_CASE("for_each_view can change a view in place, and plain values have no views") {
  std::vector<float> first(1), other(7);
  Arguments arguments{.first = writes(first)};
  for_each_view(arguments, [&]<typename T>(ArrayView<T>& view) {
    if constexpr (std::is_same_v<T, float>) view = writes(other);
  });
  CHECK(arguments.first.data() == other.data());
  CHECK(arguments.inner.third.size() == 7);
  CHECK(arguments.fourth.empty());

  int number = 3;
  WithoutViews plain;
  CHECK(views_of(number).empty());
  CHECK(views_of(plain).empty());
}

TEST_CASE("a view of a null pointer has no elements, whatever the size") {
  CHECK(reads(static_cast<const float*>(nullptr), 5).empty());
  CHECK(writes(static_cast<float*>(nullptr), 5).empty());
}
