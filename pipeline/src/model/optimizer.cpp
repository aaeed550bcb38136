#include "millrace/pipeline/model/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "millrace/text/parse_enum.hpp"

namespace millrace {
namespace {

constexpr bool in_order_of_kind() {
  for (std::size_t i = 0; i < kOptimizers.size(); ++i) {
    if (kOptimizers[i].kind != static_cast<OptimizerKind>(i)) return false;
  }
  return true;
}
static_assert(in_order_of_kind(), "traits_of() finds a row by its number");

template <typename Wanted>
std::string listed(std::string_view quote, Wanted&& wanted) {
  std::vector<std::string> names;
  for (const OptimizerTraits& traits : kOptimizers) {
    if (wanted(traits)) names.push_back(fmt::format("{}{}{}", quote, traits.name, quote));
  }
  return text::alternatives(names);
}

}  // namespace

std::string_view to_string(OptimizerKind kind) noexcept { return traits_of(kind).name; }

OptimizerKind parse_optimizer(std::string_view name) {
  std::vector<OptimizerKind> kinds;
  kinds.reserve(kOptimizers.size());
  for (const OptimizerTraits& traits : kOptimizers) kinds.push_back(traits.kind);
  return text::parse_enum("optimizer", name, kinds);
}

std::string optimizer_names(std::string_view quote) {
  return listed(quote, [](const OptimizerTraits&) { return true; });
}

std::string dense_optimizer_names(std::string_view quote) {
  return listed(quote, [](const OptimizerTraits& traits) { return traits.state_of_row == 0; });
}

}  // namespace millrace
