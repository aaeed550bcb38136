#include "explain/words.hpp"

#include <fmt/format.h>

#include <string_view>

#include "cli/text.hpp"
#include "cli/wording.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/observe/explain_difference.hpp"
#include "millrace/text/units.hpp"

namespace millrace::cli {
SizeUnit::SizeUnit(std::uint64_t largest) {
  const auto value = static_cast<double>(largest);
  divisor_ = value >= kGiB ? kGiB : value >= kMiB ? kMiB : kKiB;
  name_ = value >= kGiB ? "GiB" : value >= kMiB ? "MiB" : "KiB";
}

std::string SizeUnit::plain(std::uint64_t bytes) const {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / divisor_);
}

std::string change_in_words(std::int64_t bytes) {
  const auto magnitude = static_cast<std::uint64_t>(bytes);
  return (bytes < 0 ? "−" : "+") + format_bytes(bytes < 0 ? 0 - magnitude : magnitude);
}

std::string how_often(std::uint64_t count) {
  return count == 1 ? "once" : fmt::format("{} times", count);
}

std::string signed_number(std::int64_t number) {
  const auto magnitude = static_cast<std::uint64_t>(number);
  return fmt::format("{}{}", number < 0 ? "−" : "+", number < 0 ? 0 - magnitude : magnitude);
}

std::string share_of(std::uint64_t part, std::uint64_t all) {
  if (all == 0) return "–";
  return percent(static_cast<double>(part) / static_cast<double>(all));
}

std::string shortened(const std::string& any_text, std::size_t columns) {
  const std::string text = printable(any_text);
  if (width_of(text) <= columns) return text;
  // Function names are at the beginning and places at the end. Cut only between characters.
  const auto is_inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
  };
  const std::size_t kept = columns - 1;
  std::size_t head = kept / 2, tail = text.size() - (kept - kept / 2);
  while (head > 0 && is_inside(head)) --head;
  while (tail < text.size() && is_inside(tail)) ++tail;
  return text.substr(0, head) + "…" + text.substr(tail);
}

const char* meaning(MemoryPart part) noexcept {
  switch (part) {
    case MemoryPart::live:
      return "requested and not freed";
    case MemoryPart::rounding:
      return "sizes rounded up";
    case MemoryPart::rest:
      return "ends of blocks, too small to split off";
    case MemoryPart::waiting:
      return "freed, but other streams may still use it";
    case MemoryPart::stream:
      return "free on another stream";
    case MemoryPart::pool:
      return "free in another pool";
    case MemoryPart::hard:
      return "free, next to blocks in use";
    case MemoryPart::soft:
      return "free, in whole segments";
    case MemoryPart::driver:
      return "not live, in the driver's pool at addresses not known";
  }
  return "";
}

std::string on_stream(const Explanation& explanation, const std::vector<std::string>& names,
                      std::uint32_t stream) {
  if (stream >= explanation.streams.size()) return "on the default stream";
  const std::string& name = names[stream];
  return explanation.streams[stream].for_all ? "by " + name : "on the " + name;
}

std::string pool_name(const trace::TorchPool& pool) {
  if (pool == trace::TorchPool{0, 0}) return "the default pool";
  return fmt::format("the pool ({}, {})", pool.first, pool.second);
}

std::string short_stream(const std::string& name) {
  constexpr std::string_view before = "stream ", after = " stream";
  const bool is_number = name.find_first_not_of("0123456789", before.size()) == std::string::npos;
  if (name.starts_with(before) && !is_number) return name.substr(before.size());
  if (name.ends_with(after)) return name.substr(0, name.size() - after.size());
  return name;
}

std::string event_name(const trace::AllocationLog& log, std::optional<std::size_t> event) {
  if (!event) return "the beginning";
  return fmt::format("{} {}", trace::has_lines(log.format) ? "line" : "event",
                     log.events[*event].position);
}

std::string usable(const ExplainedFile& file, const MemoryShare& share) {
  const trace::AllocationLog& log = file.log;
  const std::string until =
      share.until ? event_name(log, share.until) : std::string{"the log ends"};
  switch (share.part) {
    case MemoryPart::live:
    case MemoryPart::rounding:
    case MemoryPart::rest:
      return share.until ? "until " + until : "beyond the log";
    case MemoryPart::waiting:
    case MemoryPart::hard:
      return share.until ? "after " + until : "beyond the log";
    case MemoryPart::stream:
      if (file.explanation.sites[share.site].kind == SiteKind::unused) return "no work on it";
      return share.last ? "its work at " + event_name(log, share.last) : "its earlier work";
    case MemoryPart::pool:
      return "in its pool only";
    case MemoryPart::soft:
      return "now";
    case MemoryPart::driver:
      return "as the driver decides";
  }
  return "";
}

}  // namespace millrace::cli
