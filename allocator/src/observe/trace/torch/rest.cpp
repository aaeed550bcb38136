#include "observe/trace/torch/rest.hpp"

#include <algorithm>
#include <tuple>

namespace millrace::trace {

namespace {

constexpr std::uint64_t kRestUnit = 512;

// Best fit takes the smallest block that is large enough, of equal ones the lowest.
bool would_be_chosen(std::uint64_t address, std::uint64_t bytes, const RestClues::Choice& choice) {
  return bytes >= choice.asked &&
         std::tuple{bytes, address} < std::tuple{choice.chosen_bytes, choice.chosen_address};
}

}  // namespace

bool RestClues::add(std::uint64_t gap_begin, const Choice& choice) {
  constexpr std::uint64_t largest_rest = std::uint64_t{1} << 20;
  const std::uint64_t gap = choice.gap_end - gap_begin;
  const bool never_fits = gap < choice.asked;
  const bool always_worse = gap - std::min(gap, largest_rest) > choice.chosen_bytes;
  return !never_fits && !always_worse && choices_.insert(choice).second;
}

std::uint64_t RestClues::least(std::uint64_t gap_begin, std::uint64_t most) const {
  std::uint64_t rest = 0;
  const auto contradicts = [&](const Choice& choice) {
    return would_be_chosen(gap_begin + rest, choice.gap_end - gap_begin - rest, choice);
  };
  while (true) {
    const auto found = std::ranges::find_if(choices_, contradicts);
    if (found == choices_.end()) return rest;
    rest = found->gap_end - gap_begin - found->asked + kRestUnit;
    if (rest > most) return 0;
  }
}

}  // namespace millrace::trace
