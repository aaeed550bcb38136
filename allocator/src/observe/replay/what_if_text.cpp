#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "millrace/observe/what_if.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr std::size_t kLines = 6;  // most lines of each list

std::string in_mib(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

std::string in_mib(const std::optional<std::size_t>& bytes) {
  return bytes ? in_mib(*bytes) : "does not fit";
}

/** Of a DriverModel or a ModeledRun. */
template <typename Model>
std::string range_in_mib(const std::optional<Model>& model) {
  return model ? in_mib(model->least) + " to " + in_mib(model->most) : "does not fit";
}

std::string line(const WhatIfReserved& reserved) {
  return fmt::format("driver's pool {}, torch {}, millrace {}", range_in_mib(reserved.driver),
                     in_mib(reserved.torch), in_mib(reserved.millrace));
}

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

/** "the 40 allocations of load (app.cpp:12) for copy (3 sizes)", or "12 of the 40 ..." */
std::string which(const WhatIfMove& move) {
  std::string count = fmt::format("{} of the {}", move.blocks, move.group_blocks);
  if (move.blocks == move.group_blocks)
    count = fmt::format("{} {}", move.site.empty() ? "all" : "the", move.blocks);
  return fmt::format("{} allocations{} for {} ({} size{})", count,
                     move.site.empty() ? "" : " of " + move.site, move.stream, move.sizes.size(),
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

using Figure = std::size_t (*)(const WhatIfReserved&);

struct Subject {
  const char* name;
  Figure peak;   // 0: does not fit
  Figure waits;  // of the allocator itself
};
constexpr Subject kSubjects[] = {
    {"the driver's pool",
     [](const WhatIfReserved& of) { return of.driver ? of.driver->most : std::size_t{0}; },
     [](const WhatIfReserved&) { return std::size_t{0}; }},
    {"torch", [](const WhatIfReserved& of) { return of.torch.value_or(0); },
     [](const WhatIfReserved& of) { return of.torch_waits; }},
    {"millrace", [](const WhatIfReserved& of) { return of.millrace.value_or(0); },
     [](const WhatIfReserved& of) { return of.millrace_waits; }}};

/** Returns the allocator's waits beyond those that it makes for the unchanged requests. */
std::size_t added_waits(const WhatIfMove& move, const WhatIfReserved& now, const Subject& subject) {
  const std::size_t then = subject.waits(move.reserved), before = subject.waits(now);
  return then > before ? then - before : 0;
}

/**
 * Returns "3 waits of the allocator with torch and 11 with millrace"; "" if none is added.
 * @param only  the allocator that the text is about; nullptr: all of them
 */
std::string waits_of_allocator(const WhatIfMove& move, const WhatIfReserved& now,
                               const Subject* only) {
  std::string text;
  for (const Subject& subject : kSubjects) {
    const std::size_t waits = added_waits(move, now, subject);
    if (waits == 0 || (only != nullptr && only != &subject)) continue;
    text += text.empty() ? fmt::format("{} wait{} of the allocator", waits, plural(waits))
                         : fmt::format(" and {}", waits);
    if (only == nullptr) text += fmt::format(" with {}", subject.name);
  }
  return text;
}

std::string waits_of_program(const WhatIfMove& move) {
  const WhatIfCost& cost = move.cost;
  if (cost.waits == 0) return "no wait is added to the program";
  const std::string waits =
      fmt::format("{} wait{} of {}, ", cost.waits, plural(cost.waits), move.stream);
  if (!cost.most_delay_us) return waits + "whose time is not known";
  if (*cost.most_delay_us == 0) return waits + "each for complete work";
  return waits + "which delay it by " + delay(*cost.most_delay_us) + " in all, at most";
}

/** @param only  like that of `waits_of_allocator` */
std::string price(const WhatIfMove& move, const WhatIfReserved& now, const Subject* only) {
  if (!move.cost.waits_are_known) {
    return fmt::format(
        "the allocator adds {} waits with torch, {} with millrace; their time is "
        "not known",
        move.reserved.torch_waits, move.reserved.millrace_waits);
  }
  const std::string of_program = waits_of_program(move);
  const std::string of_allocator = waits_of_allocator(move, now, only);
  if (!of_allocator.empty())
    return of_program + ", and " + of_allocator + ", whose time is not known";
  return of_program + (move.cost.most_delay_us == 0 ? ": costs 0 us" : "");
}

std::string describe(const WhatIfMove& move, const WhatIfReserved& now) {
  return fmt::format("    {}, {}:\n      {}\n      {}\n", which(move), how(move),
                     line(move.reserved), price(move, now, nullptr));
}

/** Returns a sort key: moves that save most come first, and of these the cheapest. */
auto rank(const WhatIfMove& move, const WhatIfReserved& now, const Subject& subject) {
  const std::size_t added = added_waits(move, now, subject);
  const bool known = move.cost.most_delay_us.has_value() && added == 0;
  return std::tuple{subject.peak(move.reserved), !known,
                    known ? *move.cost.most_delay_us : std::int64_t{0}, move.cost.waits + added};
}

/** Returns the best move for each allocator. */
std::string advice(const WhatIf& what_if) {
  std::string text;
  for (const Subject& subject : kSubjects) {
    const std::size_t now = subject.peak(what_if.reserved);
    const WhatIfMove* best = nullptr;
    for (const WhatIfMove& move : what_if.moves) {
      const std::size_t then = subject.peak(move.reserved);
      if (then == 0 || then >= now) continue;
      if (best == nullptr ||
          rank(move, what_if.reserved, subject) < rank(*best, what_if.reserved, subject))
        best = &move;
    }
    if (best == nullptr) continue;
    text += fmt::format("    with {} {} MiB: {}, {};\n      {}\n", subject.name,
                        in_mib(now - subject.peak(best->reserved)), which(*best), how(*best),
                        price(*best, what_if.reserved, &subject));
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
  std::string run;
  if (what_if.run)
    run = (what_if.run->waits ? ", millrace run --wait " : ", millrace run ") +
          range_in_mib(what_if.run);
  std::string text = fmt::format("  what each allocator would have reserved, MiB\n    {}{}\n",
                                 line(what_if.reserved), run);
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
    text += describe(what_if.moves[i], what_if.reserved);
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
         {"group_blocks", move.group_blocks},
         {"waits", cost.waits_are_known ? json(cost.waits) : json(nullptr)},
         {"most_delay_us", cost.most_delay_us ? json(*cost.most_delay_us) : json(nullptr)},
         {"host_us", cost.host_us ? json(*cost.host_us) : json(nullptr)},
         {"reserved", to_json(move.reserved)}});
  }
  out = {{"recorded_bytes", nullptr},
         {"load_bytes", what_if.load},
         {"reserved", to_json(what_if.reserved)},
         {"run", what_if.run
                     ? json{{"least_bytes", what_if.run->least}, {"most_bytes", what_if.run->most}}
                     : json(nullptr)},
         {"stranded", std::move(stranded)},
         {"moves", std::move(moves)}};
  if (what_if.recorded) out["recorded_bytes"] = *what_if.recorded;
}

}  // namespace millrace
