#include "pipelines/bound.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::experiment;
using namespace std::chrono_literals;

namespace {

constexpr std::array kWorkingEngines{Engine::compute, Engine::host_to_device,
                                     Engine::device_to_host, Engine::link, Engine::host};

/// An operation on memory pages that are named by small numbers.
LoggedOperation operation(Engine engine, Nanoseconds begin, Nanoseconds alone,
                          std::vector<std::pair<std::uintptr_t, Access>> pages,
                          unsigned device = 0) {
  static std::uint64_t index = 0;
  LoggedOperation made{.name = "",
                       .stream = "",
                       .device = device,
                       .index = index++,
                       .engine = engine,
                       .begin = begin,
                       .end = begin + alone,
                       .alone = alone,
                       .cost = {},
                       .views = {}};
  for (const auto& [page, access] : pages) {
    made.views.push_back({reinterpret_cast<void*>((page + 1) << 12), 1 << 12, access});
  }
  return made;
}

Nanoseconds chain(const std::vector<LoggedOperation>& operations) {
  return bound_of(operations, DeviceProfile::named("h100")).data_flow;
}

/// 1 flop and 2 bytes of memory per nanosecond.
DeviceProfile simple_profile() {
  DeviceProfile profile = DeviceProfile::named("h100");
  profile.flops = 1e9;
  profile.memory_bandwidth = 2e9;
  return profile;
}

Nanoseconds engines(const std::vector<LoggedOperation>& operations) {
  return bound_of(operations, simple_profile()).engines;
}

/// Work that occupies an engine for `alone`, or compute work with this cost.
LoggedOperation work(Engine engine, Nanoseconds alone, unsigned device = 0, Cost cost = {}) {
  LoggedOperation made = operation(engine, 0ns, alone, {}, device);
  made.cost = cost;
  return made;
}
LoggedOperation kernel(double flops, double bytes, unsigned device = 0) {
  return work(Engine::compute, 1ns, device, {.flops = flops, .bytes = bytes});
}

/// A log of what two devices ran, in order of begin. Operations of the link are on both devices.
std::vector<LoggedOperation> draw_log() {
  std::vector<LoggedOperation> log;
  int at = 0;
  const int count = *rc::gen::inRange(0, 25);
  for (int i = 0; i < count; ++i) {
    at += *rc::gen::inRange(1, 4);
    const Engine engine = *rc::gen::elementOf(kWorkingEngines);
    const Nanoseconds alone{*rc::gen::inRange(0, 9)};
    const unsigned devices = engine == Engine::link ? 2 : 1;
    const unsigned first = devices == 2 ? 0 : *rc::gen::inRange(0U, 2U);
    for (unsigned device = first; device < first + devices; ++device) {
      LoggedOperation& made =
          log.emplace_back(operation(engine, Nanoseconds{at}, alone, {}, device));
      made.cost = {.flops = static_cast<double>(*rc::gen::inRange(0, 20)),
                   .bytes = static_cast<double>(*rc::gen::inRange(0, 20))};
      const int views = *rc::gen::inRange(0, 4);
      for (int view = 0; view < views; ++view) {
        made.views.push_back({reinterpret_cast<void*>(0x1000 + *rc::gen::inRange(0UL, 30UL)),
                              *rc::gen::inRange(0UL, 12UL),
                              *rc::gen::element(Access::read, Access::write, Access::read_write)});
      }
    }
  }
  return log;
}

/// The longest chain, computed one byte after another.
Nanoseconds counted_chain(const std::vector<LoggedOperation>& log) {
  std::array<std::array<Nanoseconds, 64>, 2> written{};
  const auto each_byte = [&](const LoggedOperation& operation, Access not_this, auto&& visit) {
    for (const View& view : operation.views) {
      const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(view.address) - 0x1000;
      for (std::size_t i = 0; i < view.bytes && view.access != not_this; ++i) {
        visit(written[operation.device][begin + i]);
      }
    }
  };
  Nanoseconds longest{0};
  for (std::size_t first = 0; first < log.size();) {
    const std::size_t parts = log[first].engine == Engine::link ? 2 : 1;
    const auto all = std::span{log}.subspan(first, parts);
    Nanoseconds begin{0}, alone{0};
    for (const LoggedOperation& part : all) {
      each_byte(part, Access::write, [&](Nanoseconds at) { begin = std::max(begin, at); });
      alone = std::max(alone, part.alone);
    }
    for (const LoggedOperation& part : all) {
      each_byte(part, Access::read, [&](Nanoseconds& at) { at = begin + alone; });
    }
    longest = std::max(longest, begin + alone);
    first += parts;
  }
  return longest;
}

/// True if an operation of the engine runs on the device at that time.
bool runs(const std::vector<LoggedOperation>& log, unsigned device, Engine engine, Nanoseconds at) {
  return std::ranges::any_of(log, [&](const LoggedOperation& operation) {
    return operation.device == device && operation.engine == engine && operation.begin <= at &&
           at < operation.end;
  });
}

}  // namespace

TEST_CASE("the bound's chain has operations that read what the previous operation wrote") {
  using enum Engine;
  using enum Access;
  CHECK(chain({operation(compute, 0ns, 5ns, {{1, write}}),
               operation(compute, 5ns, 7ns, {{1, read}, {2, write}}),
               operation(compute, 12ns, 1ns, {{2, read}})}) == 13ns);
  // An overwrite of memory does not depend on the memory's old contents.
  CHECK(
      chain({operation(compute, 0ns, 5ns, {{1, write}}), operation(compute, 5ns, 7ns, {{1, write}}),
             operation(compute, 12ns, 1ns, {{1, read}})}) == 8ns);
  CHECK(chain({operation(compute, 0ns, 5ns, {{1, read_write}}),
               operation(compute, 5ns, 7ns, {{1, read_write}})}) == 12ns);
  CHECK(chain({operation(compute, 0ns, 5ns, {{1, write}}),
               operation(compute, 5ns, 7ns, {{2, write}})}) == 7ns);
}

TEST_CASE("the bound's chain continues through collective operations of the ranks") {
  using enum Engine;
  using enum Access;
  CHECK(chain({operation(compute, 0ns, 5ns, {{1, write}}, 0),
               operation(compute, 0ns, 9ns, {{1, write}}, 1),
               operation(link, 9ns, 2ns, {{1, read}, {2, write}}, 0),
               operation(link, 9ns, 2ns, {{1, read}, {2, write}}, 1),
               operation(compute, 11ns, 4ns, {{2, read}}, 0)}) == 15ns);
}

TEST_CASE("a partial write starts a new chain only for the bytes that it writes") {
  using enum Access;
  const auto at = [](std::uintptr_t begin, std::size_t bytes, Access access) {
    return View{reinterpret_cast<void*>(begin), bytes, access};
  };
  LoggedOperation whole = operation(Engine::compute, 0ns, 5ns, {});
  whole.views = {at(0x1000, 300, write)};
  LoggedOperation middle = operation(Engine::compute, 5ns, 1ns, {});
  middle.views = {at(0x1000 + 100, 100, write)};
  LoggedOperation right = operation(Engine::compute, 6ns, 2ns, {});
  right.views = {at(0x1000 + 250, 10, read)};
  LoggedOperation inside = operation(Engine::compute, 6ns, 2ns, {});
  inside.views = {at(0x1000 + 150, 10, read)};
  CHECK(chain({whole, middle, right}) == 7ns);
  CHECK(chain({whole, middle, inside}) == 5ns);
}

TEST_CASE("the bound's chain agrees with following every byte") {
  CHECK(rc::check([] {
    const std::vector<LoggedOperation> log = draw_log();
    Nanoseconds longest{0}, all{0};
    for (const LoggedOperation& operation : log) {
      longest = std::max(longest, operation.alone);
      all += operation.alone;
    }
    RC_ASSERT(chain(log) == counted_chain(log));
    RC_ASSERT(chain(log) >= longest);
    RC_ASSERT(chain(log) <= all);
  }));
}

TEST_CASE("the bound of engines is the largest of flops, bytes, copies and exchanges") {
  using enum Engine;
  CHECK(engines({kernel(10, 4), kernel(5, 4)}) == 15ns);
  CHECK(engines({kernel(10, 40), kernel(5, 4)}) == 22ns);
  const std::vector<LoggedOperation> copies{work(host_to_device, 9ns), work(host_to_device, 8ns),
                                            kernel(10, 4)};
  CHECK(engines(copies) == 17ns);
  // Each direction has its own engine.
  CHECK(engines({work(host_to_device, 9ns), work(device_to_host, 8ns)}) == 9ns);
  CHECK(engines({work(link, 20ns), work(host_to_device, 9ns), work(link, 3ns)}) == 23ns);
  // Flops and bytes limit kernels, not the time that each takes alone. Host work is not limited.
  CHECK(engines({work(compute, 100ns), work(host, 100ns)}) == 0ns);
  CHECK(engines({}) == 0ns);
}

TEST_CASE("the bound of engines is the bound of the device with the most work") {
  using enum Engine;
  CHECK(engines({kernel(10, 0, 0), kernel(11, 0, 1), kernel(3, 0, 0)}) == 13ns);
  CHECK(engines({work(link, 5ns, 0), work(link, 5ns, 1)}) == 5ns);
}

TEST_CASE("the bound of engines grows with each operation by at most that operation's time") {
  CHECK(rc::check([] {
    std::vector<LoggedOperation> log = draw_log(), more = draw_log();
    const Nanoseconds before = engines(log), added = engines(more);
    log.insert(log.end(), more.begin(), more.end());
    RC_ASSERT(engines(log) >= before);
    RC_ASSERT(engines(log) >= added);
    RC_ASSERT(engines(log) <= before + added + 1ns);  // each is rounded
    const Nanoseconds together = engines(log);
    std::ranges::reverse(log);
    RC_ASSERT(engines(log) == together);
  }));
}

TEST_CASE("an operation waits for both of its inputs, which share an engine") {
  // Two operations read memory, one adds their results, and two need the sum: 10 + 10 bytes at 2
  // bytes per nanosecond, 7 flops, 4 + 4 bytes.
  const auto made = [](double flops, double bytes, Nanoseconds alone,
                       std::vector<std::pair<std::uintptr_t, Access>> pages) {
    LoggedOperation one = operation(Engine::compute, 0ns, alone, std::move(pages));
    one.cost = {.flops = flops, .bytes = bytes};
    return one;
  };
  using enum Access;
  const std::vector<LoggedOperation> log{
      made(0, 10, 5ns, {{0, write}}), made(0, 10, 5ns, {{1, write}}),
      made(7, 0, 7ns, {{0, read}, {1, read}, {2, write}}), made(0, 4, 2ns, {{2, read}, {3, write}}),
      made(0, 4, 2ns, {{2, read}, {4, write}})};
  const RuntimeBound bound = bound_of(log, simple_profile());
  CHECK(bound.data_flow == 5ns + 7ns + 2ns);
  CHECK(bound.engines == 14ns);
  CHECK(bound.both == 10ns + 7ns + 4ns);
}

TEST_CASE("the combined bound is at least each single bound and at most the sum of all times") {
  CHECK(rc::check([] {
    const std::vector<LoggedOperation> log = draw_log();
    DeviceProfile slow = simple_profile();
    slow.flops = slow.memory_bandwidth = 1e30;  // kernels take as long as they take alone
    const RuntimeBound bound = bound_of(log, slow);
    Nanoseconds all{0};
    for (const LoggedOperation& operation : log) all += operation.alone;
    RC_ASSERT(bound.both >= bound.data_flow);
    RC_ASSERT(bound.both >= bound.engines);
    RC_ASSERT(bound.both <= all);
    RC_ASSERT(bound.runtime() == bound.both);
  }));
}

TEST_CASE("busy and exposed times of engines agree with counting each unit of time") {
  CHECK(rc::check([] {
    const std::vector<LoggedOperation> log = draw_log();
    const unsigned device = *rc::gen::inRange(0U, 2U);
    const int begin = *rc::gen::inRange(0, 20);
    const TimeSpan window{Nanoseconds{begin}, Nanoseconds{begin + *rc::gen::inRange(0, 70)}};
    EngineTimes expected;
    for (Nanoseconds at = window.begin; at < window.end; ++at) {
      for (const Engine engine : kWorkingEngines) {
        if (runs(log, device, engine, at)) ++expected.busy[static_cast<std::size_t>(engine)];
      }
      if (runs(log, device, Engine::compute, at)) continue;
      if (runs(log, device, Engine::host_to_device, at)) ++expected.exposed_copies;
      if (runs(log, device, Engine::link, at)) ++expected.exposed_exchanges;
    }
    const EngineTimes times = engine_times(log, device, window);
    RC_ASSERT(times.busy == expected.busy);
    RC_ASSERT(times.exposed_copies == expected.exposed_copies);
    RC_ASSERT(times.exposed_exchanges == expected.exposed_exchanges);
  }));
}

TEST_CASE("a copy is exposed while its device computes nothing, a copy to the host never is") {
  using enum Engine;
  const std::vector<LoggedOperation> log{
      operation(host_to_device, 0ns, 10ns, {}, 0), operation(compute, 4ns, 3ns, {}, 0),
      operation(compute, 4ns, 6ns, {}, 1), operation(link, 8ns, 4ns, {}, 0),
      operation(device_to_host, 20ns, 5ns, {}, 0)};
  const EngineTimes times = engine_times(log, 0, {0ns, 100ns});
  CHECK(times.exposed_copies == 7ns);
  CHECK(times.exposed_exchanges == 4ns);
  CHECK(times.busy[static_cast<std::size_t>(compute)] == 3ns);
}
