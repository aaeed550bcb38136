#include "millrace/memory/out_of_memory.hpp"

#include <fmt/format.h>

#include <iterator>

#include "millrace/memory/byte_size.hpp"

namespace millrace {
std::string MemoryPicture::to_string() const {
  std::string text = fmt::format("out of memory: asked for {} on {} ({} rounded)\n",
                                 format_bytes(requested), stream, format_bytes(rounded));
  auto out = std::back_inserter(text);
  fmt::format_to(out, "  reserved {}{}: {} allocated, {} usable now (largest piece {})\n",
                 format_bytes(reserved),
                 limit == 0 ? "" : fmt::format(" of a limit of {}", format_bytes(limit)),
                 format_bytes(allocated), format_bytes(usable), format_bytes(largest_usable));
  if (graph_pools != 0) {
    fmt::format_to(out, "  held by graph pools: {}, {} of it in no live block\n",
                   format_bytes(graph_pools), format_bytes(graph_pools_free));
  }
  for (const Stranded& where : stranded) {
    fmt::format_to(out, "  stranded on {}: {}, usable {}\n", where.stream,
                   format_bytes(where.bytes),
                   where.usable.empty() ? "once it is complete" : where.usable);
  }
  fmt::format_to(out, "  device: {} free of {}, {} held by others", format_bytes(device_free),
                 format_bytes(device_total), format_bytes(held_by_others));
  return text;
}

out_of_memory::out_of_memory(MemoryPicture picture)
    : picture_(std::move(picture)), text_(picture_.to_string()) {}

}  // namespace millrace
