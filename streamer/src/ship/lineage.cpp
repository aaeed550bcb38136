#include "millrace/streamer/lineage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "millrace/text/parse_number.hpp"

namespace millrace {
namespace {

std::uint64_t number_at(std::string_view& text, std::string_view all) {
  const auto value = text::take_number<std::uint64_t>(text);
  if (!value) {
    throw std::invalid_argument(
        fmt::format("'{}' is not a lineage (expected EPOCH:STEP pairs in ascending order)", all));
  }
  return *value;
}

}  // namespace

void Lineage::extend(Version version) {
  if (!ends_.empty() && version < ends_.back()) {
    throw std::invalid_argument(fmt::format("{} is before {}, the last version of the lineage",
                                            to_string(version), to_string(ends_.back())));
  }
  // The lineage has one end for each epoch: its last step.
  if (!ends_.empty() && ends_.back().epoch == version.epoch) ends_.pop_back();
  ends_.push_back(version);
}

bool Lineage::contains(Version version) const noexcept {
  return std::ranges::any_of(
      ends_, [&](Version end) { return end.epoch == version.epoch && version.step <= end.step; });
}

Version Lineage::last() const noexcept { return ends_.empty() ? Version{} : ends_.back(); }

std::string to_string(const Lineage& lineage) {
  std::string text;
  for (const Version end : lineage.ends()) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", to_string(end));
  }
  return text;
}

Lineage parse_lineage(std::string_view text) {
  Lineage lineage;
  const std::string_view all = text;
  while (!text.empty()) {
    const std::uint64_t epoch = number_at(text, all);
    if (!text.starts_with(':')) text = ":";  // number_at reports the error below
    text.remove_prefix(1);
    lineage.extend({epoch, number_at(text, all)});
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return lineage;
}

}  // namespace millrace
