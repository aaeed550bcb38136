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
#include "cli/json_text.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"
#include "cli/values.hpp"
#include "commands.hpp"
#include "millrace/observe/trace/parse_error.hpp"
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
  std::string format = "table";
  std::optional<std::string> output;
};

trace::AllocationLog read(const std::string& file) {
  try {
    return trace::read_trace(file);
  } catch (const trace::ParseError& error) {
    throw UsageError{error.what(), "", trace::trace_formats()};
  }
}

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
  const bool json = read_name("--format", "format", arguments.format, {"table", "json"}) == "json";
  const std::size_t device_bytes =
      arguments.device_bytes.empty()
          ? 0
          : read_bytes("--device-bytes", arguments.device_bytes, kMostDeviceBytes);
  const Output output{arguments.output};

  Progress progress{"replay", arguments.files.size()};
  std::vector<ReplayedFile> replayed;
  std::vector<UsageError> refused;
  for (const std::string& file : arguments.files) {
    try {
      const trace::AllocationLog log = read(file);
      replayed.push_back(
          {file, log.format, log.warnings, replay_devices(log, names, device_bytes)});
    } catch (const UsageError& error) {
      refused.push_back(error);
    }
    progress.advance(file);
  }
  if (replayed.empty()) throw UsageErrors{std::move(refused)};
  if (json) {
    output.write(json_text(to_document(replayed)));
  } else {
    const Painter paint{output.to_stdout() && colours_on_stdout()};
    output.write(fitted(render(replayed, paint)));
  }
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
  command.add("--format", given->format, "KIND", "Output format: table (default), json");
  command.output("-o,--output", given->output, "FILE",
                 "Write to this file, complete or not at all (default: standard output)",
                 Result::main);
  command.run([given] { run_replay_command(*given); });
}

}  // namespace millrace::cli
