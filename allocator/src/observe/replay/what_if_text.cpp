#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

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

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

/** "the 40 allocations of load (app.cpp:12) for copy (3 sizes)" */
std::string which(const WhatIfMove& move) {
  const std::string of = move.site.empty()
                             ? fmt::format("all {} allocations", move.blocks)
                             : fmt::format("the {} allocations of {}", move.blocks, move.site);
  return fmt::format("{} for {} ({} size{})", of, move.stream, move.sizes.size(),
                     plural(move.sizes.size()));
}

std::string how(const WhatIfMove& move) {
  switch (move.strategy) {
    case WhatIfStrategy::in_place:
      return "in-place on " + move.to;
    case WhatIfStrategy::precise:
      return "precise on " + move.to;
    case WhatIfStrategy::transfer:
      return "handed to " + move.to;
    case WhatIfStrategy::ring:
      return "in a ring of buffers";
    case WhatIfStrategy::free_list:
      return "in a list of buffers that are kept";
  }
  return "?";
}

std::string delay(std::int64_t us) {
  if (us < 1000) return fmt::format("{} us", us);
  return us < 1'000'000 ? fmt::format("{:.1f} ms", static_cast<double>(us) / 1e3)
                        : fmt::format("{:.2f} s", static_cast<double>(us) / 1e6);
}

std::string price(const WhatIfMove& move) {
  const WhatIfCost& cost = move.cost;
  if (!cost.waits_are_known) {
    return fmt::format(
        "the allocator adds {} waits with torch, {} with millrace; their time is "
        "not known",
        move.reserved.torch_waits, move.reserved.millrace_waits);
  }
  if (cost.waits == 0) return "no wait is added: costs 0 us";
  const std::string waits =
      fmt::format("{} wait{} of {}, ", cost.waits, plural(cost.waits), move.stream);
  if (!cost.most_delay_us) return waits + "whose time is not known";
  return waits + (*cost.most_delay_us == 0
                      ? std::string{"each for complete work: costs 0 us"}
                      : "which delay it by " + delay(*cost.most_delay_us) + " in all, at most");
}

std::string describe(const WhatIfMove& move) {
  return fmt::format("    {}, {}:\n      {}\n      {}\n", which(move), how(move),
                     line(move.reserved), price(move));
}

using Peak = std::size_t (*)(const WhatIfReserved&);  // 0: does not fit

struct Subject {
  const char* name;
  Peak peak;
};
constexpr Subject kSubjects[] = {
    {"the driver's pool",
     [](const WhatIfReserved& of) { return of.driver ? of.driver->most : std::size_t{0}; }},
    {"torch", [](const WhatIfReserved& of) { return of.torch.value_or(0); }},
    {"millrace", [](const WhatIfReserved& of) { return of.millrace.value_or(0); }}};

/** For each allocator the move that saves most; of those that save as much, the cheapest. */
std::string advice(const WhatIf& what_if) {
  std::string text;
  for (const Subject& subject : kSubjects) {
    const std::size_t now = subject.peak(what_if.reserved);
    const WhatIfMove* best = nullptr;
    const auto rank = [&](const WhatIfMove& move) {
      const bool known = move.cost.waits_are_known && move.cost.most_delay_us.has_value();
      return std::tuple{subject.peak(move.reserved), !known, known ? *move.cost.most_delay_us : 0,
                        move.cost.waits};
    };
    for (const WhatIfMove& move : what_if.moves) {
      const std::size_t then = subject.peak(move.reserved);
      if (then == 0 || then >= now) continue;
      if (best == nullptr || rank(move) < rank(*best)) best = &move;
    }
    if (best == nullptr) continue;
    text += fmt::format("    with {} {} MiB: {}, {};\n      {}\n", subject.name,
                        in_mib(now - subject.peak(best->reserved)), which(*best), how(*best),
                        price(*best));
  }
  return text.empty() ? text : "  saves most\n" + text;
}

json to_json(const WhatIfReserved& reserved) {
  json out{{"driver", nullptr},
           {"torch_bytes", nullptr},
           {"millrace_bytes", nullptr},
           {"torch_waits", reserved.torch_waits},
           {"millrace_waits", reserved.millrace_waits}};
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
  if (what_if.moves.empty()) return text + "  no other way to make allocations saves memory\n";
  text += advice(what_if) + "  made in another way, MiB\n";
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
    const WhatIfCost& cost = move.cost;
    moves.push_back(
        {{"strategy", to_string(move.strategy)},
         {"stream", move.stream},
         {"to", move.to},
         {"site", move.site},
         {"sizes", move.sizes},
         {"blocks", move.blocks},
         {"waits", cost.waits_are_known ? json(cost.waits) : json(nullptr)},
         {"most_delay_us",
          cost.waits_are_known && cost.most_delay_us ? json(*cost.most_delay_us) : json(nullptr)},
         {"host_us", cost.host_us ? json(*cost.host_us) : json(nullptr)},
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
