#include "millrace/memory/out_of_memory.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace millrace {
namespace {

std::string size(std::size_t bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace

std::string MemoryPicture::to_string() const {
  std::string text = fmt::format("out of memory: asked for {} on {} ({} rounded)\n",
                                 size(requested), stream, size(rounded));
  auto out = std::back_inserter(text);
  fmt::format_to(out, "  reserved {}{}: {} allocated, {} usable now (largest piece {})\n",
                 size(reserved), limit == 0 ? "" : fmt::format(" of a limit of {}", size(limit)),
                 size(allocated), size(usable), size(largest_usable));
  if (graph_pools != 0) {
    fmt::format_to(out, "  held by graph pools: {}, {} of it in no live block\n", size(graph_pools),
                   size(graph_pools_free));
  }
  for (const Stranded& where : stranded) {
    fmt::format_to(out, "  stranded on {}: {}, usable {}\n", where.stream, size(where.bytes),
                   where.usable.empty() ? "once it is complete" : where.usable);
  }
  fmt::format_to(out, "  device: {} free of {}, {} held by others", size(device_free),
                 size(device_total), size(held_by_others));
  return text;
}

out_of_memory::out_of_memory(MemoryPicture picture)
    : picture_(std::move(picture)), text_(picture_.to_string()) {}

}  // namespace millrace
