#include "explain/explained.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "cli/figures.hpp"
#include "cli/read_log.hpp"
#include "millrace/device/error.hpp"
#include "millrace/memory/out_of_memory.hpp"
#include "millrace/observe/driver_model.hpp"
#include "millrace/observe/packing.hpp"
#include "millrace/observe/replay.hpp"

namespace millrace::cli {
namespace {

// With more, the replays take over ten seconds, and the search for a layout minutes.
constexpr std::size_t kMostReplayedEvents = 3'000'000;
constexpr std::size_t kMostPackedEvents = 200'000;

/** Replays the requests of a device on one allocator. */
void replay_row(WhatIfRow& row, const trace::AllocationLog& log, std::uint32_t device,
                std::uint32_t main) {
  try {
    const trace::AllocationLog other = row.change == ProgramChange::none
                                           ? trace::AllocationLog{}
                                           : changed(log, device, row.change, main);
    const ReplayReport report = replay(row.change == ProgramChange::none ? log : other, device,
                                       {.policy = Policy::named(row.allocator),
                                        .start = ReplayStart::live_blocks,
                                        .bounds = RequestBounds{},
                                        .ladder = false});
    row.reserved = report.statistics.bytes.reserved.peak;
    if (row.change == ProgramChange::ring) *row.reserved += ring_bytes(log, device, main);
    row.waits = report.statistics.counts.waits_inserted;
  } catch (const out_of_memory& error) {
    row.failure = describe(error);
  }
}

/** The driver's pool, which only the order of streams allows to model. */
void model_driver_rows(ExplainedDevice& device, const trace::AllocationLog& log) {
  for (WhatIfRow& row : device.rows) {
    if (row.allocator != kDriverLeast && row.allocator != kDriverMost) continue;
    row.failure = "the requests do not fit";
  }
  try {
    const DriverModel model = model_driver(log, device.memory.device, 0);
    for (WhatIfRow& row : device.rows) {
      if (row.allocator == kDriverLeast) row.reserved = model.least;
      if (row.allocator == kDriverMost) row.reserved = model.most;
      if (row.reserved) row.failure.clear();
    }
  } catch (const DeviceError&) {  // they keep what they say
  }
}

/** Runs tasks on as many threads as there are processors. */
void run_all(const std::vector<std::function<void()>>& tasks) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t task = next++; task < tasks.size(); task = next++) tasks[task]();
  };
  const std::size_t threads =
      std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), tasks.size());
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
}

std::size_t events_of(const trace::AllocationLog& log, std::uint32_t device) {
  return static_cast<std::size_t>(std::ranges::count(log.events, device, &trace::LogEvent::device));
}

/** The stream that has the blocks of a changed program. */
std::uint32_t main_of(const ExplainedDevice& device, const trace::AllocationLog& log) {
  return main_stream(log, device.memory.device).value_or(device.memory.peak.asker.stream);
}

void plan_rows(ExplainedDevice& device, const trace::AllocationLog& log) {
  std::vector<ProgramChange> changes =
      possible_changes(log, device.memory.device, main_of(device, log));
  changes.insert(changes.begin(), ProgramChange::none);
  const auto add = [&](const char* allocator, ProgramChange change) {
    device.rows.push_back(
        {.allocator = allocator, .change = change, .reserved = {}, .waits = 0, .failure = {}});
  };
  if (knows_order(log.format)) {
    for (const char* const driver : {kDriverLeast, kDriverMost}) add(driver, ProgramChange::none);
  }
  const bool is_expandable = log.snapshot && log.snapshot->settings.expandable_segments;
  for (const ProgramChange change : changes) {
    add("torch", change);
    if (change == ProgramChange::none && !is_expandable) add("torch-expandable", change);
    add("millrace", change);
  }
}

void add_replays(ExplainedFile& explained, Replays replays) {
  std::vector<std::function<void()>> tasks;
  for (ExplainedDevice& device : explained.devices) {
    const std::uint32_t number = device.memory.device;
    const std::size_t events = events_of(explained.log, number);
    if (events == 0) {
      device.left_out = "what other allocators would have reserved: the log has no events";
      continue;
    }
    const bool too_many = replays == Replays::limited && events > kMostReplayedEvents;
    if (replays == Replays::none || too_many) {
      device.left_out =
          fmt::format("what other allocators would have reserved ({})",
                      too_many ? fmt::format("{} events; --replay all takes them all", events)
                               : "--replay none");
      continue;
    }
    plan_rows(device, explained.log);
    const std::uint32_t main = main_of(device, explained.log);
    if (knows_order(explained.log.format)) {
      tasks.emplace_back([&device, &explained] { model_driver_rows(device, explained.log); });
    }
    for (WhatIfRow& row : device.rows) {
      if (row.allocator == kDriverLeast || row.allocator == kDriverMost) continue;
      tasks.emplace_back(
          [&row, &explained, number, main] { replay_row(row, explained.log, number, main); });
    }
    if (events <= kMostPackedEvents || replays == Replays::all) {
      tasks.emplace_back([&device, &explained, number] {
        device.packed = quick_pack(lifetimes(explained.log, number)).height;
      });
    } else {
      device.left_out = fmt::format("the packed layout ({} events)", events);
    }
  }
  run_all(tasks);
}

/** Everything but replays. */
ExplainedFile explained_log(const std::string& file, trace::AllocationLog log,
                            const std::string& name) {
  ExplainedFile explained{
      .file = file, .log = std::move(log), .explanation = {}, .devices = {}, .host = {}};
  explained.explanation = explain(explained.log);
  for (const DeviceExplanation& device : explained.explanation.devices) {
    explained.devices.push_back(
        {.name = name.empty() ? fmt::format("device {}", device.device) : name,
         .memory = device,
         .rows = {},
         .packed = {},
         .left_out = {},
         .advice = {}});
  }
  return explained;
}

}  // namespace

std::string WhatIfRow::name() const {
  return change == ProgramChange::none ? allocator
                                       : fmt::format("{}, {}", allocator, to_string(change));
}

const WhatIfRow* ExplainedDevice::find(std::string_view allocator, ProgramChange change) const {
  const auto row = std::ranges::find_if(rows, [&](const WhatIfRow& each) {
    return each.reserved && each.allocator == allocator && each.change == change;
  });
  return row == rows.end() ? nullptr : &*row;
}

ExplainedFile explain_file(const std::string& file, Replays replays) {
  ExplainedFile explained = explained_log(file, read_log(file), "");
  add_replays(explained, replays);
  for (ExplainedDevice& device : explained.devices) device.advice = advise(explained, device);
  for (trace::AllocationLog& host : explained.log.host) {
    explained.host.push_back(explained_log(file, std::move(host), "pinned host memory"));
  }
  explained.log.host.clear();
  return explained;
}

}  // namespace millrace::cli
