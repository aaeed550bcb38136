#include "cli/figures.hpp"

#include <fmt/format.h>

#include <cmath>

#include "millrace/memory/byte_size.hpp"

namespace millrace::cli {

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double rank = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (rank - std::floor(rank)) * (values[above] - values[below]);
}

std::string describe(const out_of_memory& error) {
  const MemoryPicture& picture = error.picture();
  return fmt::format("{} asked for {}; {} reserved, {} of {} free", picture.stream,
                     format_bytes(picture.requested), format_bytes(picture.reserved),
                     format_bytes(picture.device_free), format_bytes(picture.device_total));
}

}  // namespace millrace::cli
