#include "page/ladder.hpp"

#include <fmt/format.h>

#include "millrace/memory/byte_size.hpp"

namespace millrace::cli {

PageRows page_ladder(const Ladder& ladder) {
  PageRows rows;
  rows.title = "Where the reserved memory went";
  rows.cumulative = true;
  rows.rows = {
      {"requested", ladder.requested, "live bytes that the program asked for", false},
      {"rounded", ladder.rounded, "with the rounding of sizes", false},
      {"ordered", ladder.ordered, "with memory that streams still used", false},
      {"packed", ladder.packed, "with gaps between contiguous blocks", false},
      {"reserved", ladder.reserved, "with what the allocator kept or did not foresee", true}};
  return rows;
}

void add_sentences(PageRun& run, const std::vector<std::string>& sentences, std::uint32_t device) {
  for (const std::string& text : sentences) run.summary.push_back({text, device});
}

std::vector<std::string> ladder_sentences(const Ladder& ladder) {
  return {fmt::format("At most {} were reserved, and at most {} were live at once.",
                      format_bytes(ladder.reserved), format_bytes(ladder.requested)),
          fmt::format("Of the rest, {} are the cost of streams, {} of contiguous blocks, {} of the "
                      "allocator's decisions, and {} of rounding.",
                      format_bytes(ladder.streams()), format_bytes(ladder.packing()),
                      format_bytes(ladder.policy()), format_bytes(ladder.rounding()))};
}

}  // namespace millrace::cli
