#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "allocator/cases/case.hpp"
#include "allocator/cases/script.hpp"
#include "millrace/observe/trace/read_trace.hpp"

namespace millrace::bench {
namespace {

using Kind = ScriptStep::Kind;

/// The requests of the first device. Blocks that were live before the first event are allocated
/// first.
Script script_of(const trace::AllocationLog& log) {
  Script script;
  script.streams = std::max<unsigned>(1, static_cast<unsigned>(log.streams.size()));
  script.blocks = static_cast<std::uint32_t>(log.blocks.size());
  const auto is_ours = [&](std::uint32_t block) {
    return log.blocks[block].device == 0 && log.blocks[block].bytes > 0;
  };
  std::vector<bool> live(log.blocks.size());
  const auto allocate = [&](std::uint32_t block) {
    script.steps.push_back(
        {Kind::allocate, log.blocks[block].stream, block, log.blocks[block].bytes});
    live[block] = true;
  };
  for (std::uint32_t block = 0; block < log.blocks.size(); ++block) {
    if (log.blocks[block].live_at_start && is_ours(block)) allocate(block);
  }
  for (const trace::LogEvent& event : log.events) {
    if (event.block == trace::LogEvent::kNoBlock || !is_ours(event.block)) continue;
    if (event.kind == trace::EventKind::allocate) allocate(event.block);
    if (event.kind != trace::EventKind::free_requested || !live[event.block]) continue;
    script.steps.push_back({Kind::free, event.stream, event.block});
    live[event.block] = false;
  }
  return script;
}

bool is_trace(const std::filesystem::path& file) {
  return file.extension() == ".csv" || file.extension() == ".pickle" || file.extension() == ".json";
}

std::vector<std::filesystem::path> traces_under(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{folder}) {
    if (entry.is_regular_file() && is_trace(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

void add_traces(Cases& cases, const CaseOptions& options) {
  if (options.data.empty()) {
    cases.left_out.push_back(
        {"traces", "", "no folder of traces was given (--data, MILLRACE_DATA)"});
    return;
  }
  const std::filesystem::path folder = std::filesystem::path{options.data} / "traces";
  if (!std::filesystem::is_directory(folder)) {
    cases.left_out.push_back({"traces", "", "there is no folder " + folder.string()});
    return;
  }
  for (const std::filesystem::path& file : traces_under(folder)) {
    // The file is read in the first run of its case.
    const auto script = std::make_shared<Script>();
    const std::string name = file.parent_path().filename().string() + "-" + file.stem().string();
    cases.all.push_back({.suite = "traces",
                         .name = name,
                         .run = [script, file](const auto& row, const auto& setting) {
                           if (script->steps.empty()) *script = script_of(trace::read_trace(file));
                           return run_script(*script, row, setting);
                         }});
  }
}

}  // namespace millrace::bench
