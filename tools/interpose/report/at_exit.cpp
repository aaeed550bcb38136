// Writes the report when the process ends. It makes no call of CUDA, which may be unloaded by then.

#include "report/at_exit.hpp"

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "report/report.hpp"

namespace millrace::interpose {
namespace {

bool made_any_call(const Process& process) {
  for (const CallCount& count : process.calls) {
    if (count.made != 0) return true;
  }
  return false;
}

/** The program used CUDA, and this library saw no call. */
void warn_of_uncaught_use() {
  warn_once(
      "this process used the CUDA driver, and no call of a shared CUDA runtime (libcudart.so) was "
      "seen: its memory was not Millrace's. A runtime that is linked statically cannot be caught: "
      "link the shared one (nvcc -cudart shared; CMake: CUDA_RUNTIME_LIBRARY Shared). Memory of "
      "the driver's own functions (cuMemAlloc) stays the driver's");
}

void write_snapshot_of(const Process& process) {
  const std::string name = of_this_process(process.settings.snapshot);
  if (name.empty() || (process.gpus().empty() && process.ended().empty())) return;
  try {
    write_snapshot(name, process);
  } catch (const std::exception& error) {
    warn_once(("the snapshot cannot be written: " + std::string{error.what()}).c_str());
  }
}

/** Adds an output of the report. @param place  a file, "-" for standard error, or empty for none */
void add_place(std::vector<ReportFile>& files, const std::string& place, bool as_json) {
  if (place.empty()) return;
  const std::string name = of_this_process(place);
  std::FILE* const file = name == "-" ? stderr : std::fopen(name.c_str(), "w");
  if (file == nullptr) return warn_once(("the report cannot be written to " + name).c_str());
  files.push_back({file, as_json});
}

void report(Process& process, const char* ended_by) {
  if (!process.is_child()) {
    process.finish_recording();
    write_snapshot_of(process);
  }
  const Settings& settings = process.settings;
  if ((settings.report.empty() && settings.json.empty()) || process.is_child()) return;
  if (!made_any_call(process)) {
    if (driver_is_loaded() && !runtime_is_loaded()) warn_of_uncaught_use();
    return;
  }
  std::vector<ReportFile> files;
  add_place(files, settings.report, settings.report.ends_with(".json"));
  add_place(files, settings.json, true);
  write_report(process, ended_by, files);
  for (const ReportFile& of : files) {
    if (of.file != stderr) std::fclose(of.file);
  }
}

std::atomic<bool> has_begun{false};

__attribute__((destructor)) void report_at_exit() noexcept { report_once(nullptr); }

}  // namespace

bool report_has_begun() noexcept { return has_begun; }

void report_once(const char* ended_by) noexcept {
  if (has_begun.exchange(true)) return;
  try {
    report(Process::get(), ended_by);
  } catch (const std::exception&) {  // no memory for it
  }
}

}  // namespace millrace::interpose
