#include "explain/words.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cli/text.hpp"
#include "cli/wording.hpp"

namespace millrace::cli {
namespace {

constexpr double kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;

}  // namespace

std::string size_in_words(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= kGiB) return fmt::format("{:.2f} GiB", value / kGiB);
  if (value >= kMiB) return fmt::format("{:.2f} MiB", value / kMiB);
  if (value >= kKiB) return fmt::format("{:.2f} KiB", value / kKiB);
  return fmt::format("{} B", bytes);
}

SizeUnit::SizeUnit(std::uint64_t largest) {
  const auto value = static_cast<double>(largest);
  divisor_ = value >= kGiB ? kGiB : value >= kMiB ? kMiB : kKiB;
  name_ = value >= kGiB ? "GiB" : value >= kMiB ? "MiB" : "KiB";
}

std::string SizeUnit::plain(std::uint64_t bytes) const {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / divisor_);
}

std::string SizeUnit::change(std::int64_t bytes) const {
  return fmt::format("{}{:.2f}", bytes < 0 ? "−" : "+",
                     std::abs(static_cast<double>(bytes)) / divisor_);
}

std::string share_of(std::uint64_t part, std::uint64_t all) {
  if (all == 0) return "–";
  return percent(static_cast<double>(part) / static_cast<double>(all));
}

std::string shortened(const std::string& text, std::size_t columns) {
  if (width_of(text) <= columns) return text;
  // Names of functions are at the beginning and places at the end. Cut between characters.
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
  }
  return "";
}

std::string event_name(const trace::AllocationLog& log, std::optional<std::size_t> event) {
  if (!event) return "the beginning";
  return fmt::format("{} {}", log.snapshot ? "event" : "line", log.events[*event].position);
}

std::string usable(const trace::AllocationLog& log, const MemoryShare& share) {
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
      return share.last ? "its work at " + event_name(log, share.last) : "its earlier work";
    case MemoryPart::pool:
      return "in its pool only";
    case MemoryPart::soft:
      return "now";
  }
  return "";
}

}  // namespace millrace::cli
