#include "observe/replay/decision_check.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

namespace millrace {
namespace {

std::string hex(std::uint64_t value) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

using trace::LogEvent;

void DecisionCheck::compare(const LogEvent& event, std::uint64_t recorded,
                            std::vector<std::size_t> taken, std::uint64_t ours) {
  compare_segments(event, std::move(taken));
  ++decisions_.total;
  if (ours == recorded) {
    ++decisions_.same;
  } else {
    differs(event, ": " + std::to_string(event.bytes) + " bytes at " + hex(recorded) +
                       ", here at " + hex(ours));
  }
}

void DecisionCheck::compare_segments(const LogEvent& event, std::vector<std::size_t> taken) {
  std::ranges::sort(expected_);
  std::ranges::sort(taken);
  std::vector<std::size_t> both;
  std::ranges::set_intersection(expected_, taken, std::back_inserter(both));
  decisions_.segments_same += both.size();
  const std::size_t total = expected_.size() + taken.size() - both.size();
  decisions_.segments_total += total;
  if (total != both.size()) {
    differs(event, ": other segments were taken for " + std::to_string(event.bytes) + " bytes");
  }
  expected_.clear();
}

void DecisionCheck::differs(const LogEvent& event, const std::string& how) {
  if (!decisions_.first_difference.empty()) return;
  decisions_.first_difference = "event " + std::to_string(event.position) + how;
}

}  // namespace millrace
