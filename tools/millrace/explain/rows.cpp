#include "explain/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/figures.hpp"
#include "millrace/device/error.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/memory/out_of_memory.hpp"
#include "millrace/observe/driver_model.hpp"
#include "millrace/observe/packing.hpp"
#include "millrace/observe/replay.hpp"

namespace millrace::cli {
namespace {

// Above these limits the replays take over ten seconds, and the search for a layout takes minutes.
constexpr std::size_t kMostReplayedEvents = 3'000'000;
constexpr std::size_t kMostPackedEvents = 200'000;
constexpr std::size_t kMostLadderEvents = 100'000;  // 50,000 allocations take a second

bool is_modeled(const WhatIfRow& row) {
  return row.allocator == kDriverLeast || row.allocator == kDriverMost;
}

/** The last request on a device that the recorded allocator could not serve; nullptr if none
 * failed. */
const trace::LogEvent* last_failure(const trace::AllocationLog& log, std::uint32_t device) {
  const trace::LogEvent* last = nullptr;
  for (const trace::LogEvent& event : log.events) {
    if (event.device == device && event.kind == trace::EventKind::out_of_memory) last = &event;
  }
  return last;
}

/** Whether the last failed request is served. This needs a separate replay, because requests that
 * it serves would change the figures of the row. */
std::optional<bool> serves_failed(const trace::AllocationLog& log, std::uint32_t device,
                                  ReplayOptions options) {
  options.retries_failed = true;
  try {
    const RetriedRequests retried = replay(log, device, options).retried;
    return retried.tried == 0 ? std::nullopt : std::optional{retried.last_served};
  } catch (const out_of_memory&) {  // a request fails after one that is served
    return std::nullopt;
  }
}

/** Replays the requests of a device with one allocator. */
void replay_row(WhatIfRow& row, const ExplainedDevice& device, const trace::AllocationLog& log,
                std::uint32_t main) {
  const std::uint32_t number = device.memory.device;
  const bool is_changed = row.change != ProgramChange::none;
  const bool is_ring = row.change == ProgramChange::ring;
  const std::size_t limit = device.limit.bytes;
  // The ring's buffers take a part of the device.
  const std::uint64_t ring = is_ring ? ring_bytes(log, number, main) : 0;
  if (limit != 0 && ring >= limit) {
    row.failure = fmt::format("the buffers alone need {}", format_bytes(ring));
    return;
  }
  try {
    const trace::AllocationLog other =
        is_changed ? changed(log, number, row.change, main) : trace::AllocationLog{};
    const trace::AllocationLog& replayed = is_changed ? other : log;
    const ReplayOptions options{.policy = Policy::named(row.allocator),
                                .device_bytes = limit == 0 ? 0 : limit - ring,
                                .start = ReplayStart::live_blocks,
                                .bounds = RequestBounds{},
                                .ladder = false};
    const ReplayReport report = replay(replayed, number, options);
    row.reserved = report.statistics.bytes.reserved.peak + ring;
    row.waits = report.statistics.counts.waits_inserted;
    row.notes = report.warnings;
    // A side stream with a ring requests no memory, so its failed request does not occur.
    const trace::LogEvent* const failed = last_failure(log, number);
    if (limit != 0 && failed != nullptr && (!is_ring || failed->stream == main))
      row.serves_failed = serves_failed(replayed, number, options);
  } catch (const out_of_memory& error) {
    row.failure = describe(error);
  }
}

/** Computes the rows of the driver's pool. The model needs the order of the streams. */
void model_driver_rows(ExplainedDevice& device, const trace::AllocationLog& log) {
  for (WhatIfRow& row : device.rows) {
    if (is_modeled(row)) row.failure = "the requests do not fit";
  }
  try {
    const DriverModel model = model_driver(log, device.memory.device, 0);
    for (WhatIfRow& row : device.rows) {
      if (row.allocator == kDriverLeast) row.reserved = model.least;
      if (row.allocator == kDriverMost) row.reserved = model.most;
      if (row.reserved) row.failure.clear();
    }
  } catch (const DeviceError&) {  // the rows keep their failure text
  }
}

/** Runs tasks on one thread per processor. @throws the exception of the first task that failed */
void run_all(const std::vector<std::function<void()>>& tasks) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> thrown(tasks.size());
  const auto work = [&] {
    for (std::size_t task = next++; task < tasks.size(); task = next++) {
      try {
        tasks[task]();
      } catch (...) {
        thrown[task] = std::current_exception();
      }
    }
  };
  const std::size_t threads =
      std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), tasks.size());
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();  // joins the threads
  for (const std::exception_ptr& error : thrown) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

std::size_t events_of(const trace::AllocationLog& log, std::uint32_t device) {
  return static_cast<std::size_t>(std::ranges::count(log.events, device, &trace::LogEvent::device));
}

/** The stream that allocates the blocks of a changed program. */
std::uint32_t main_of(const ExplainedDevice& device, const trace::AllocationLog& log) {
  return main_stream(log, device.memory.device).value_or(device.memory.peak.asker.stream);
}

void plan_rows(ExplainedDevice& device, const trace::AllocationLog& log) {
  std::vector<ProgramChange> changes =
      possible_changes(log, device.memory.device, main_of(device, log));
  changes.insert(changes.begin(), ProgramChange::none);
  const auto add = [&](const char* allocator, ProgramChange change) {
    WhatIfRow& row = device.rows.emplace_back();
    row.allocator = allocator;
    row.change = change;
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

/** Why a device is not replayed; "" if it is replayed. */
std::string left_out(std::size_t events, Replays replays) {
  if (events == 0) return "what other allocators would have reserved: the log has no events";
  const bool too_many = replays != Replays::all && events > kMostReplayedEvents;
  if (replays != Replays::none && !too_many) return "";
  return fmt::format("what other allocators would have reserved ({})",
                     replays == Replays::none
                         ? "--replay none"
                         : fmt::format("{} events; --replay all takes them all", events));
}

using Tasks = std::vector<std::function<void()>>;

void add_replays(Tasks& tasks, ExplainedDevice& device, const trace::AllocationLog& log) {
  const std::uint32_t main = main_of(device, log);
  for (WhatIfRow& row : device.rows) {
    if (is_modeled(row)) continue;
    tasks.emplace_back([&row, &device, &log, main] { replay_row(row, device, log, main); });
  }
}

/** Removes an inexact size limit if the unchanged program does not fit into it. @return whether it
 * removed the limit */
bool drops_limit(ExplainedDevice& device) {
  const auto failed = std::ranges::find_if(device.rows, [](const WhatIfRow& row) {
    return !is_modeled(row) && row.change == ProgramChange::none && !row.failure.empty();
  });
  if (failed == device.rows.end() || !device.limit.is_recorded()) return false;
  device.limit = unlimited(device.limit, failed->name(), failed->failure);
  for (WhatIfRow& row : device.rows) {
    if (is_modeled(row)) continue;
    WhatIfRow anew;
    anew.allocator = row.allocator;
    anew.change = row.change;
    row = std::move(anew);
  }
  return true;
}

/** The allocator for the ladder: the one whose replay is most similar to the recording. */
std::string most_alike(const ExplainedDevice& device, const trace::AllocationLog& log) {
  if (log.snapshot && !device.memory.shares_streams) return "torch";
  for (const char* const allocator : {"millrace", "torch"}) {
    const WhatIfRow* const row = device.find(allocator, ProgramChange::none);
    if (row != nullptr && row->reserved == device.memory.peak.reserved) return allocator;
  }
  return device.memory.shares_streams ? "millrace" : "torch";
}

/** Whether to make a slow computation, which has a limit of `most` events. */
bool computes(std::size_t events, std::size_t most, Replays replays) {
  return replays == Replays::all || (replays == Replays::limited && events <= most);
}

/** Computes the ladder. A snapshot with PyTorch's allocator is replayed from the recorded memory,
 * which repeats PyTorch's decisions. */
void find_ladder(ExplainedDevice& device, const trace::AllocationLog& log) {
  const std::string allocator = most_alike(device, log);
  const bool repeats = log.snapshot && allocator == "torch";
  try {
    const ReplayReport report =
        replay(log, device.memory.device,
               {.policy = Policy::named(allocator),
                .device_bytes = repeats ? 0 : device.limit.bytes,
                .start = repeats ? ReplayStart::recorded : ReplayStart::live_blocks,
                .bounds = RequestBounds{}});
    const std::optional<std::uint64_t> recorded = device.memory.peak.reserved;
    device.ladder = {.of = allocator,
                     .is_recorded = recorded && report.ladder.reserved == *recorded,
                     .ladder = report.ladder};
  } catch (const out_of_memory&) {  // a request fails that PyTorch could serve: no ladder
  }
}

/** Joins equal notes of several rows into one. */
void collect_notes(ExplainedDevice& device) {
  if (!device.limit.note.empty()) device.notes.push_back(device.limit.note);
  std::vector<std::pair<std::string, std::string>> notes;  // text, and the names of its rows
  for (const WhatIfRow& row : device.rows) {
    if (row.change != ProgramChange::none) continue;
    for (const std::string& text : row.notes) {
      const auto known =
          std::ranges::find(notes, text, &std::pair<std::string, std::string>::first);
      if (known == notes.end()) {
        notes.emplace_back(text, row.name());
      } else {
        known->second += ", " + row.name();
      }
    }
  }
  for (const auto& [text, rows] : notes) device.notes.push_back(fmt::format("{}: {}", rows, text));
}

}  // namespace

void add_rows(ExplainedFile& explained, Replays replays) {
  const trace::AllocationLog& log = explained.log;
  Tasks tasks;
  for (ExplainedDevice& device : explained.devices) {
    const std::uint32_t number = device.memory.device;
    const std::size_t events = events_of(log, number);
    device.left_out = left_out(events, replays);
    if (!device.left_out.empty()) continue;
    plan_rows(device, log);
    device.limit = replay_memory(log, number);
    if (knows_order(log.format))
      tasks.emplace_back([&device, &log] { model_driver_rows(device, log); });
    add_replays(tasks, device, log);
    if (replays == Replays::rows) continue;
    if (computes(events, kMostPackedEvents, replays)) {
      tasks.emplace_back(
          [&device, &log, number] { device.packed = quick_pack(lifetimes(log, number)).height; });
    } else {
      device.left_out = "the packed layout";
    }
    if (!computes(events, kMostLadderEvents, replays))
      device.left_out += device.left_out.empty() ? "the ladder" : " and the ladder";
    if (!device.left_out.empty()) device.left_out += fmt::format(" ({} events)", events);
  }
  run_all(tasks);
  tasks.clear();
  for (ExplainedDevice& device : explained.devices) {
    if (drops_limit(device)) add_replays(tasks, device, log);
    const std::size_t events = events_of(log, device.memory.device);
    if (!device.rows.empty() && computes(events, kMostLadderEvents, replays))
      tasks.emplace_back([&device, &log] { find_ladder(device, log); });
  }
  run_all(tasks);
  for (ExplainedDevice& device : explained.devices) collect_notes(device);
}

}  // namespace millrace::cli
