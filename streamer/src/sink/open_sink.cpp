#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "millrace/streamer/memory_sink.hpp"
#include "millrace/streamer/sink.hpp"
#include "millrace/streamer/sink_kinds.hpp"

namespace millrace {
namespace {

template <typename Chosen>
std::string addresses_of(Chosen&& chosen) {
  std::vector<std::string_view> addresses;
  for (const SinkKind& kind : sink_kinds()) {
    if (std::invoke(chosen, kind)) addresses.push_back(kind.address);
  }
  return fmt::format("{}", fmt::join(addresses, ", "));
}

/** Returns the kind that `spec` names, if this build has it. `what`: "sink" or "source". */
const SinkKind& built_kind(std::string_view spec, const char* what, const std::string& expected) {
  const SinkKind* kind = find_sink_kind(spec);
  if (kind == nullptr) {
    throw std::invalid_argument(fmt::format("'{}' is not the address of a {} (expected {})",
                                            redacted(spec), what, expected));
  }
  if (!kind->built()) {
    throw std::invalid_argument(fmt::format("{}: this build has no {} sink; {}", redacted(spec),
                                            kind->name, sink_remedy(*kind)));
  }
  return *kind;
}

}  // namespace

const SinkKind* find_sink_kind(std::string_view address) {
  const auto kinds = sink_kinds();
  const auto found =
      std::ranges::find_if(kinds, [&](const SinkKind& kind) { return kind.owns(address); });
  return found == kinds.end() ? nullptr : &*found;
}

std::string sink_addresses() {
  return addresses_of([](const SinkKind&) { return true; });
}

std::string source_addresses() { return addresses_of(&SinkKind::keeps_order); }

std::string sink_remedy(const SinkKind& kind) {
  if (kind.built()) return "";
  return fmt::format("install {} (Debian's name) and configure the build again", kind.package);
}

std::unique_ptr<Sink> open_sink(std::string_view spec) {
  if (spec == "memory") return std::make_unique<MemorySink>();
  return built_kind(spec, "sink", sink_addresses()).open_sink(spec);
}

std::unique_ptr<RecordSource> open_source(std::string_view spec) {
  const SinkKind& kind = built_kind(spec, "source", source_addresses());
  if (!kind.keeps_order) {
    throw std::invalid_argument(fmt::format("{}: {} keeps no order to read from (expected {})",
                                            redacted(spec), kind.name, source_addresses()));
  }
  return kind.open_source(spec);
}

}  // namespace millrace
