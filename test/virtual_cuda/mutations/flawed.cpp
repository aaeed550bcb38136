#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "check/rules.hpp"

namespace millrace::virtual_cuda {
namespace {

constexpr RaceChecker::EventKey kEverything = ~RaceChecker::EventKey{0};

std::string_view flaw() {
  static const std::string_view name = [] {
    const char* const asked = std::getenv("MILLRACE_CHECKER_FLAW");
    constexpr std::string_view kKnown[] = {
        "none",
#define MILLRACE_FLAW(name) #name,
#include "test/virtual_cuda/mutations/flaws.def"
#undef MILLRACE_FLAW
    };
    // An unknown name must not pass as a checker without a flaw.
    if (asked == nullptr ||
        std::find(std::begin(kKnown), std::end(kKnown), asked) == std::end(kKnown))
      std::abort();
    return std::string_view{asked};
  }();
  return name;
}

std::string_view name_of(Rule rule) {
  switch (rule) {
#define MILLRACE_RULE(name) \
  case Rule::name:          \
    return #name;
    MILLRACE_RULE(callers_tell_calls_apart)
    MILLRACE_RULE(const_is_read)
    MILLRACE_RULE(declared_accesses)
    MILLRACE_RULE(graph_end)
    MILLRACE_RULE(graph_launches)
    MILLRACE_RULE(graph_nodes)
    MILLRACE_RULE(graph_waits)
    MILLRACE_RULE(gaps_between_rows)
    MILLRACE_RULE(host_functions)
    MILLRACE_RULE(kernels_to_the_end)
    MILLRACE_RULE(mappings_adjoin)
    MILLRACE_RULE(memory_is_forgotten)
    MILLRACE_RULE(nothing_outside)
    MILLRACE_RULE(nothing_twice)
    MILLRACE_RULE(pairs_once)
    MILLRACE_RULE(within_bounds)
#undef MILLRACE_RULE
  }
  std::abort();
}

}  // namespace

bool has_flaw(std::string_view name) { return flaw() == name; }
bool holds(Rule rule) { return flaw() != name_of(rule); }

RaceChecker::Actor Races::add_stream(std::string name, bool blocking, bool legacy,
                                     unsigned device) {
  if (has_flaw("all_streams_block")) blocking = true;
  if (has_flaw("no_stream_blocks")) blocking = false;
  return RaceChecker::add_stream(std::move(name), blocking, legacy, device);
}

RaceChecker::OpIndex Races::enqueue(Actor stream, Actor thread, std::string_view name) {
  if (has_flaw("every_stream_follows")) RaceChecker::wait(stream, kEverything, thread);
  const OpIndex made = RaceChecker::enqueue(stream, thread, name);
  if (has_flaw("every_stream_follows")) RaceChecker::record(kEverything, stream, thread);
  return made;
}

void Races::access(OpIndex op, const void* address, std::size_t bytes, Access kind) {
  if (has_flaw("no_reads") && kind == Access::read) return;
  if (has_flaw("reads_are_writes")) kind = Access::write;
  if (has_flaw("first_byte_only")) bytes = 1;
  RaceChecker::access(op, address, bytes, kind);
}

void Races::record(EventKey event, Actor stream, Actor thread) {
  if (has_flaw("no_records")) return;
  if (has_flaw("waits_of_the_last_record")) event = kEverything;
  RaceChecker::record(event, stream, thread);
}

void Races::wait(Actor stream, EventKey event, Actor thread) {
  if (has_flaw("no_waits")) return;
  if (has_flaw("waits_of_the_last_record")) event = kEverything;
  RaceChecker::wait(stream, event, thread);
}

void Races::event_synchronized(EventKey event, Actor thread) {
  if (!has_flaw("no_event_synchronization")) RaceChecker::event_synchronized(event, thread);
}

void Races::stream_synchronized(Actor stream, Actor thread) {
  if (!has_flaw("no_stream_synchronization")) RaceChecker::stream_synchronized(stream, thread);
}

void Races::device_synchronized(Actor thread, unsigned device) {
  if (!has_flaw("no_device_synchronization")) RaceChecker::device_synchronized(thread, device);
}

RaceChecker::OpIndex Races::allocated(const void* address, std::size_t bytes, Actor user,
                                      Actor thread, std::string_view name) {
  if (has_flaw("any_stream_gets_memory"))
    return RaceChecker::allocated_for_any(address, bytes, thread, name);
  return RaceChecker::allocated(address, bytes, user, thread, name);
}

RaceChecker::OpIndex Races::pool_freed(const void* address, Actor stream, Actor thread,
                                       std::string_view name) {
  if (has_flaw("pools_free_at_once")) return RaceChecker::freed(address, thread, name);
  return RaceChecker::pool_freed(address, stream, thread, name);
}

}  // namespace millrace::virtual_cuda
