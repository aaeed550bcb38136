#include "cli/command.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/fitted.hpp"
#include "cli/progress.hpp"
#include "cli/read_log.hpp"
#include "cli/results.hpp"
#include "cli/text.hpp"
#include "cli/values.hpp"
#include "commands.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "replay/json.hpp"
#include "replay/report.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kMostDeviceBytes = std::size_t{1} << 45;

struct ReplayArguments {
  std::vector<std::string> files;
  std::string allocators = "all";
  std::string device_bytes;
  ResultArguments results;
};

/** Something was to be replayed, and every row ran out of memory. */
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

void run_replay_command(const ReplayArguments& arguments) {
  const std::vector<std::string> names =
      read_names("--allocator", "allocator", arguments.allocators, {"torch", "millrace"});
  const std::size_t device_bytes =
      arguments.device_bytes.empty()
          ? 0
          : read_bytes("--device-bytes", arguments.device_bytes, kMostDeviceBytes);
  const Results results{arguments.results, "table"};

  Progress progress{"replay", arguments.files.size()};
  std::vector<ReplayedFile> replayed;
  std::vector<UsageError> refused;
  for (const std::string& file : arguments.files) {
    try {
      const trace::AllocationLog log = read_log(file);
      replayed.push_back(
          {file, log.format, log.warnings, replay_devices(log, names, device_bytes)});
    } catch (const UsageError& error) {
      refused.push_back(error);
    }
    progress.advance(file);
  }
  if (replayed.empty()) throw UsageErrors{std::move(refused)};
  results.write([&](const Painter& paint) { return fitted(render(replayed, paint)); },
                [&] { return to_document(replayed); });
  if (!refused.empty()) throw UsageErrors{std::move(refused)};
  if (none_fits(replayed)) throw Ended{number_of(ExitCode::out_of_memory)};
}

}  // namespace

void add_replay(CLI::App& program) {
  Command command{program, "replay",
                  "Replays allocation traces on each allocator, and compares what it reserves with "
                  "the recorded run and with the least that is possible"};
  const auto given = std::make_shared<ReplayArguments>();
  command.input("FILE", given->files, "", "Traces: " + trace::trace_formats()).required();
  command.add("--allocator", given->allocators, "A,B|all",
              "Allocators: torch, millrace (default all)");
  command.add("--device-bytes", given->device_bytes, "SIZE",
              "Memory of the device, for every row (default: from the trace, otherwise unlimited)");
  add_result_options(command, given->results, "table");
  command.examples({{"millrace replay snapshot.pickle",
                     "Replays a memory snapshot of PyTorch on each allocator."},
                    {"millrace replay --allocator millrace --device-bytes 24GiB rmm.csv",
                     "Replays a log of RMM on a device of 24 GiB."}});
  command.run([given] { run_replay_command(*given); });
}

}  // namespace millrace::cli
