#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "millrace/observe/what_if.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr std::size_t kLines = 6;  // of each list

std::string in_mib(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

std::string in_mib(const std::optional<std::size_t>& bytes) {
  return bytes ? in_mib(*bytes) : "does not fit";
}

std::string in_mib(const std::optional<DriverModel>& driver) {
  return driver ? in_mib(driver->least) + " to " + in_mib(driver->most) : "does not fit";
}

std::string line(const WhatIfReserved& reserved) {
  return fmt::format("driver's pool {}, torch {}, millrace {}", in_mib(reserved.driver),
                     in_mib(reserved.torch), in_mib(reserved.millrace));
}

std::string describe(const WhatIfMove& move) {
  const std::string which = move.site.empty()
                                ? fmt::format("all {} allocations", move.blocks)
                                : fmt::format("the {} allocations of {}", move.blocks, move.site);
  return fmt::format("    {} of {} ({} size{}) on {}, which makes {} wait {} times:\n      {}\n",
                     which, move.stream, move.sizes.size(), move.sizes.size() == 1 ? "" : "s",
                     move.to, move.stream, move.waits, line(move.reserved));
}

json to_json(const WhatIfReserved& reserved) {
  json out{{"driver", nullptr}, {"torch_bytes", nullptr}, {"millrace_bytes", nullptr}};
  if (reserved.driver) {
    out["driver"] = {{"least_bytes", reserved.driver->least},
                     {"most_bytes", reserved.driver->most}};
  }
  if (reserved.torch) out["torch_bytes"] = *reserved.torch;
  if (reserved.millrace) out["millrace_bytes"] = *reserved.millrace;
  return out;
}

}  // namespace

std::string to_string(const WhatIf& what_if) {
  std::string text = fmt::format("  what each allocator would have reserved, MiB\n    {}\n",
                                 line(what_if.reserved));
  if (!what_if.stranded.empty()) {
    text += "  with torch's decisions, free where no other stream could have it, MiB\n";
    for (std::size_t i = 0; i < std::min(kLines, what_if.stranded.size()); ++i) {
      const WhatIfStranded& each = what_if.stranded[i];
      text += fmt::format("    {:>10}  {}{}{}\n", in_mib(each.bytes), each.stream,
                          each.site.empty() ? "" : ", from " + each.site,
                          each.waits_for.empty() ? "" : ", until work of " + each.waits_for);
    }
  }
  if (what_if.moves.empty()) return text + "  no allocations save memory on another stream\n";
  text += "  allocated on another stream, MiB\n";
  for (std::size_t i = 0; i < std::min(kLines, what_if.moves.size()); ++i)
    text += describe(what_if.moves[i]);
  return text;
}

void to_json(json& out, const WhatIf& what_if) {
  json stranded = json::array(), moves = json::array();
  for (const WhatIfStranded& each : what_if.stranded) {
    stranded.push_back({{"stream", each.stream},
                        {"site", each.site},
                        {"waits_for", each.waits_for},
                        {"bytes", each.bytes}});
  }
  for (const WhatIfMove& move : what_if.moves) {
    moves.push_back({{"stream", move.stream},
                     {"to", move.to},
                     {"site", move.site},
                     {"sizes", move.sizes},
                     {"blocks", move.blocks},
                     {"waits", move.waits},
                     {"reserved", to_json(move.reserved)}});
  }
  out = {{"recorded_bytes", nullptr},
         {"load_bytes", what_if.load},
         {"reserved", to_json(what_if.reserved)},
         {"stranded", std::move(stranded)},
         {"moves", std::move(moves)}};
  if (what_if.recorded) out["recorded_bytes"] = *what_if.recorded;
}

}  // namespace millrace
