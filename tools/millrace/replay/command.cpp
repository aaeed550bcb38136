#include "cli/command.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/fitted.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cli/read_log.hpp"
#include "cli/results.hpp"
#include "cli/text.hpp"
#include "cli/values.hpp"
#include "commands.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/write_snapshot.hpp"
#include "page/output.hpp"
#include "replay/json.hpp"
#include "replay/page.hpp"
#include "replay/report.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kMostDeviceBytes = std::size_t{1} << 45;

struct ReplayArguments {
  std::vector<std::string> files;
  std::string allocators = "torch,millrace";
  std::string device_bytes;
  std::optional<std::string> snapshot, html;
  bool what_if = false;
  bool wide = false;
  ResultArguments results;
};

/** Refuses a trace without the order of the streams. */
void require_order(const std::string& file, const trace::AllocationLog& log) {
  if (knows_order(log.format)) return;
  throw UsageError{"'" + file + "' does not have the order of the program's streams", "--what-if",
                   "a trace of millrace run --record"};
}

/** Whether at least one device was replayed, and every row ran out of memory. */
bool none_fits(const std::vector<ReplayedFile>& files) {
  bool any = false;
  for (const ReplayedFile& file : files) {
    for (const ReplayedDevice& device : file.devices) {
      if (device.any() != nullptr) return false;
      any = true;
    }
  }
  return any;
}

constexpr const char* kSnapshot = "--snapshot";

void check_one_replay(const ReplayArguments& arguments, const std::vector<std::string>& names) {
  if (arguments.files.size() == 1 && names.size() == 1) return;
  throw UsageError{"a snapshot shows one file and one allocator", kSnapshot,
                   "one FILE, and --allocator " + names.front()};
}

void check_one_file(const ReplayArguments& arguments) {
  if (arguments.files.size() == 1) return;
  throw UsageError{fmt::format("a page shows one file, but there are {}", arguments.files.size()),
                   "--html", "one FILE"};
}

/** The memory of all devices, as the replayed allocator held it. */
trace::TorchSnapshot snapshot_of(const ReplayedFile& file, const std::string& allocator) {
  trace::TorchSnapshot whole;
  for (const ReplayedDevice& device : file.devices) {
    const ReplayReport* const report = device.find(allocator, ReplayStart::live_blocks);
    if (report == nullptr || !report->snapshot) continue;
    append(whole, *report->snapshot);
  }
  return whole;
}

void run_replay_command(const ReplayArguments& arguments) {
  const std::vector<std::string> names = read_names(
      "--allocator", "allocator", arguments.allocators, {"torch", "torch-expandable", "millrace"});
  const std::size_t device_bytes =
      arguments.device_bytes.empty()
          ? 0
          : read_bytes("--device-bytes", arguments.device_bytes, kMostDeviceBytes);
  const Results results{arguments.results};
  std::optional<Output> snapshot;
  if (arguments.snapshot) {
    check_one_replay(arguments, names);
    snapshot.emplace(arguments.snapshot, kSnapshot);
  }
  std::optional<ReplayPage> page;
  if (arguments.html) {
    check_one_file(arguments);
    page.emplace(*arguments.html);
  }

  Progress progress{"replay", arguments.files.size()};
  std::vector<ReplayedFile> replayed;
  std::vector<UsageError> refused;
  for (const std::string& file : arguments.files) {
    try {
      const trace::AllocationLog log = read_log(file);
      if (arguments.what_if) require_order(file, log);
      if (page) ReplayPage::check(log, names);
      replayed.push_back(
          {file, log.format, log.warnings,
           replay_devices(log, {names, device_bytes, snapshot.has_value(), arguments.what_if,
                                page ? page->tracer() : ReplayTraced{}})});
    } catch (const UsageError& error) {
      refused.push_back(error);
    }
    progress.advance(file);
  }
  if (replayed.empty()) throw UsageErrors{std::move(refused)};
  if (snapshot)
    snapshot->write(trace::write_torch_snapshot(snapshot_of(replayed.front(), names.front())));
  if (page) page->write(replayed.front());
  results.write(
      [&](const Painter& paint) { return fitted(render(replayed, arguments.wide, paint)); },
      [&] { return to_document(replayed); });
  if (!refused.empty()) throw UsageErrors{std::move(refused)};
  if (none_fits(replayed)) throw Ended{number_of(ExitCode::out_of_memory)};
}

}  // namespace

void add_replay(CLI::App& program) {
  Command command{program, "replay",
                  "Replays allocation traces on each allocator, and compares what it reserves with "
                  "the recorded run and with the theoretical minimum"};
  const auto given = std::make_shared<ReplayArguments>();
  command.input("FILE", given->files, "", "Replay these traces: " + trace::trace_formats())
      .required();
  command.add(
      "--allocator", given->allocators, "A,B|all",
      "Compare these allocators: torch, torch-expandable, millrace (default torch,millrace)");
  command.add("--device-bytes", given->device_bytes, "SIZE",
              "Set the memory of the device for every row (default: from the trace, otherwise "
              "unlimited)");
  command.flag(
      "--what-if", given->what_if,
      "Show the free memory of each stream that no other stream could use, and what moving "
      "allocations to another stream would save; for traces of millrace run --record");
  command.output(kSnapshot, given->snapshot, "FILE",
                 "Write the replay on one allocator as a PyTorch snapshot, for PyTorch's viewer",
                 Result::further);
  add_page_option(command, given->html);
  add_wide_option(command, given->wide);
  add_result_options(command, given->results);
  command.examples({{"millrace replay snapshot.pickle",
                     "Replays a memory snapshot of PyTorch on each allocator."},
                    {"millrace replay --allocator millrace --device-bytes 24GiB rmm.csv",
                     "Replays a log of RMM on a device of 24 GiB."}});
  command.run([given] { run_replay_command(*given); });
}

}  // namespace millrace::cli
