#include "observe/explain/sites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

namespace millrace {

namespace {

using trace::StackFrame;
using trace::StackTable;

bool is_own(const StackFrame& frame) {
  static constexpr std::array<std::string_view, 6> kForeign{
      "/site-packages/", "/dist-packages/", "/torch/", "/lib/python3", "<frozen", "torch/csrc"};
  static constexpr std::array<std::string_view, 6> kNotPython{".cpp", ".cc", ".h",
                                                              ".cu",  ".so", "??"};
  const std::string_view file = frame.file;
  return !file.empty() && std::ranges::none_of(kForeign, [&](std::string_view part) {
    return file.find(part) != std::string_view::npos;
  }) && std::ranges::none_of(kNotPython, [&](std::string_view end) { return file.ends_with(end); });
}

std::string bytes_in_words(std::uint64_t bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const auto unit = bytes == 0 ? 0U : static_cast<unsigned>(std::bit_width(bytes) - 1) / 10;
  return fmt::format("{} {}", bytes >> (10 * unit), kUnits[unit]);
}

/** "32 to 64 MiB", "512 MiB to 1 GiB". */
std::string range_in_words(std::uint64_t least, std::uint64_t most) {
  std::string first = bytes_in_words(least);
  const std::string second = bytes_in_words(most);
  const std::size_t unit = first.find(' ');
  if (second.ends_with(first.substr(unit))) first.resize(unit);
  return fmt::format("{} to {}", first, second);
}

/** Returns the name without the parts that all functions of a file share. */
std::string function_name(std::string name) {
  static constexpr std::string_view kNoName = "(anonymous namespace)::";
  for (std::size_t at = name.find(kNoName); at != std::string::npos; at = name.find(kNoName, at))
    name.erase(at, kNoName.size());
  return name;
}

std::string name_of_frame(const StackFrame& frame, bool with_line) {
  const std::string_view file = frame.file;
  const std::string_view name = file.substr(file.find_last_of("/\\") + 1);
  const std::string place =
      frame.line == 0 || !with_line ? std::string{name} : fmt::format("{}:{}", name, frame.line);
  return fmt::format("{} ({})", function_name(frame.function), place);
}

}  // namespace

const StackFrame& own_frame(const StackTable& stacks, StackTable::Id stack) {
  const StackFrame& innermost = stacks.at(stacks.innermost(stack));
  for (; stack != StackTable::kNone; stack = stacks.outer(stack)) {
    const StackFrame& frame = stacks.at(stacks.innermost(stack));
    if (is_own(frame)) return frame;
  }
  return innermost;
}

BlockSites sites_of_blocks(const trace::AllocationLog& log) {
  Sites sites{log};
  BlockSites result;
  result.by_block.reserve(log.blocks.size());
  for (std::uint32_t i = 0; i < log.blocks.size(); ++i)
    result.by_block.push_back(sites.of_block(i));
  result.sites = sites.take();
  return result;
}

std::uint32_t Sites::of_block(std::uint32_t index) {
  const trace::LoggedBlock& block = log_.blocks[index];
  const bool known = block.stack != StackTable::kNone || block.label != trace::LabelTable::kNone;
  if (known) return find({.kind = SiteKind::program, .stack = block.stack, .label = block.label});
  const std::uint64_t most = std::uint64_t{1} << 63;
  const std::uint64_t bytes = std::clamp<std::uint64_t>(block.bytes, 1, most);
  return find({.kind = SiteKind::size, .size_class = std::bit_ceil(bytes)});
}

std::uint32_t Sites::of_kind(SiteKind kind) { return find({.kind = kind}); }

std::uint32_t Sites::find(const ExplainedSite& site) {
  const auto [known, fresh] =
      known_.try_emplace({site.kind, site.stack, site.label, site.size_class},
                         static_cast<std::uint32_t>(sites_.size()));
  if (fresh) {
    sites_.push_back(site);
    sites_.back().name = name_of(site, true);
    sites_.back().origin = name_of(site, false);
  }
  return known->second;
}

std::string Sites::name_of(const ExplainedSite& site, bool with_line) const {
  switch (site.kind) {
    case SiteKind::program: {
      std::string name = log_.labels.at(site.label);
      if (site.stack == StackTable::kNone) return name;
      if (!name.empty()) name += ", ";
      return name + name_of_frame(own_frame(log_.stacks, site.stack), with_line);
    }
    case SiteKind::size:
      if (site.size_class <= 512) return "blocks of up to 512 B";
      return "blocks of " + range_in_words(site.size_class / 2, site.size_class);
    case SiteKind::unused:
      return "unused since acquired";
    case SiteKind::driver:
      return "the driver's pool";
    case SiteKind::unknown:
      break;
  }
  return "free before the log began";
}

}  // namespace millrace
