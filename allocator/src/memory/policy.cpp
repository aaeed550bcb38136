#include "millrace/memory/policy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <vector>

#include "millrace/round_up.hpp"
#include "millrace/text/parse_enum.hpp"

namespace millrace {

Policy Policy::torch() {
  Policy policy;
  policy.name = "torch";
  return policy;
}

Policy Policy::torch_expandable() {
  Policy policy = torch();
  policy.name = "torch-expandable";
  policy.expandable_segments = true;
  return policy;
}

Policy Policy::millrace() {
  Policy policy;
  policy.name = "millrace";
  policy.large_segment_least = std::size_t{128} << 20;
  policy.large_segment_most = std::size_t{2} << 30;
  policy.growable_ranges = true;
  policy.slack = 0.25;
  policy.sharing = Sharing::wait_before_grow;
  policy.free_when = FreeWhen::rule;
  policy.before_growing = true;
  return policy;
}

Policy Policy::pinned() {
  Policy policy;
  policy.name = "pinned";
  policy.granule = 4096;
  policy.small_remainder = 4096;
  policy.sharing = Sharing::completed;
  policy.free_when = FreeWhen::rule;
  return policy;
}

Policy Policy::named(std::string_view name) {
  std::vector<std::string> names;
  for (const auto preset : std::array{torch, torch_expandable, millrace, pinned}) {
    Policy policy = preset();
    if (policy.name == name) return policy;
    names.push_back(policy.name);
  }
  text::refuse_name("policy", name, names);
}

// `power2_divisions` is PyTorch's roundup_power2_divisions: a size between two powers of two is
// rounded up to one of that many equal steps.
std::size_t Policy::round(std::size_t bytes) const noexcept {
  constexpr int first_range = std::bit_width(std::size_t{1} << 20);
  const int range = std::clamp<int>(std::bit_width(bytes) - first_range, 0, 15);
  const std::size_t divisions = power2_divisions[static_cast<std::size_t>(range)];
  if (divisions > 1 && bytes > granule * divisions) {
    const std::size_t below = std::bit_floor(bytes);
    if (below == bytes) return bytes;
    const std::size_t step = below / divisions;
    return step == 0 ? below * 2 : round_up(bytes, step);
  }
  return std::max(granule, round_up(bytes, granule));
}

bool Policy::rounds_to_granule() const noexcept {
  const auto divides = [](std::size_t divisions) { return divisions > 1; };
  return std::has_single_bit(granule) && std::ranges::none_of(power2_divisions, divides);
}

std::size_t Policy::segment_for(std::size_t rounded, std::size_t reserved) const noexcept {
  if (rounded <= small_limit) return small_segment;
  const std::size_t needed = round_up(rounded, segment_multiple);
  if (large_segment_most == 0) return rounded < medium_limit ? medium_segment : needed;
  const std::size_t share = std::bit_floor(reserved / 8);
  return std::max(needed, std::clamp(share, large_segment_least, large_segment_most));
}

}  // namespace millrace
