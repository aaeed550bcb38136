#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "millrace/streamer/memory_sink.hpp"
#include "millrace/streamer/sink.hpp"
#include "sink/kinds.hpp"

namespace millrace {
namespace {

[[noreturn]] void refuse(std::string_view spec, const char* of) {
  throw std::invalid_argument(fmt::format(
      "'{}' is no {}; file:DIR, rocksdb:DIR, redis://HOST:PORT or kafka://BROKERS/TOPIC would be",
      redacted(spec), of));
}

const sink::SinkKind* kind_of(std::string_view spec) {
  const auto& kinds = sink::kinds();
  const auto found = std::ranges::find_if(kinds, [&](const sink::SinkKind& kind) {
    return std::ranges::any_of(kind.prefixes, [&](std::string_view prefix) {
      return !prefix.empty() && spec.starts_with(prefix);
    });
  });
  return found == kinds.end() ? nullptr : &*found;
}

void check_built(const sink::SinkKind& kind, std::string_view spec) {
  if (kind.open_sink != nullptr) return;
  throw std::invalid_argument(
      fmt::format("{}: this build is without {}; install {} and configure it anew", redacted(spec),
                  kind.name, kind.package));
}

}  // namespace

std::vector<std::string_view> sink_kinds() {
  std::vector<std::string_view> names{"memory"};
  for (const sink::SinkKind& kind : sink::kinds()) {
    if (kind.open_sink != nullptr) names.push_back(kind.name);
  }
  return names;
}

std::unique_ptr<Sink> open_sink(std::string_view spec) {
  if (spec == "memory") return std::make_unique<MemorySink>();
  const sink::SinkKind* kind = kind_of(spec);
  if (kind == nullptr) refuse(spec, "sink");
  check_built(*kind, spec);
  return kind->open_sink(spec);
}

std::unique_ptr<RecordSource> open_source(std::string_view spec) {
  const sink::SinkKind* kind = kind_of(spec);
  if (kind == nullptr) refuse(spec, "source");
  check_built(*kind, spec);
  if (kind->open_source == nullptr) {
    throw std::invalid_argument(
        fmt::format("{}: {} keeps no order to read from; file:DIR or kafka://BROKERS/TOPIC do",
                    redacted(spec), kind->name));
  }
  return kind->open_source(spec);
}

}  // namespace millrace
