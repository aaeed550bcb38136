#include "cli/command.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/error.hpp"
#include "cli/values.hpp"
#include "commands.hpp"
#include "engine/settings.hpp"
#include "run/libraries.hpp"
#include "run/program_file.hpp"
#include "run/trace_file.hpp"

namespace millrace::cli {
namespace {

struct RunOptions {
  std::string schedule;
  bool check = false;
  std::string allocator;  // empty: depends on the other options and on this build
  bool what_if = false;
  std::optional<std::string> record, snapshot, json;
  bool waits = false;
  bool leaves_malloc = false;
  bool serves_malloc = false;
  std::vector<std::string> program;
};

void require_schedule(const std::string& schedule) {
  try {
    static_cast<void>(virtual_cuda::Settings::parse(schedule));
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();  // "MILLRACE_VIRTUAL: WHAT; RIGHT"
    const std::size_t what = text.find(": ") + 2;
    const std::size_t right = text.find("; ", what);
    throw UsageError{text.substr(what, right - what), "--virtual", text.substr(right + 2)};
  }
}

void set(const char* variable, const std::string& value) {
  if (setenv(variable, value.c_str(), 1) != 0)
    throw std::runtime_error{std::string{variable} + " cannot be set: " + std::strerror(errno)};
}

/** Inserts `words` at the front of a colon-separated list in the environment. */
void put_first(const char* variable, const std::vector<std::string>& words) {
  const char* const before = std::getenv(variable);
  std::string list;
  for (const std::string& word : words) list += word + ':';
  list += before == nullptr ? "" : before;
  if (list.back() == ':') list.pop_back();
  set(variable, list);
}

/** Makes the loader choose the virtual libraries. The auditor is needed for programs that name
 * folders or paths of NVIDIA's libraries. */
void let_loader_find(const VirtualCuda& libraries) {
  put_first("LD_LIBRARY_PATH", libraries.folders);
  if (libraries.auditor.empty()) return;
  put_first("LD_AUDIT", {libraries.auditor});
  set("MILLRACE_VIRTUAL_LIBRARIES", libraries.root);
}

/** Turns the checker on. It also receives NVTX annotations of allocators, unless another tool
 * receives them. Millrace's allocator sends such annotations in programs that are linked with it.
 */
void check(const VirtualCuda& libraries) {
  set("MILLRACE_VIRTUAL_CHECK", "on");
  if (std::getenv("MILLRACE_DEBUG") == nullptr) set("MILLRACE_DEBUG", "tools");
  if (std::getenv("NVTX_INJECTION64_PATH") == nullptr)
    set("NVTX_INJECTION64_PATH", libraries.root + "/libcuda.so.1");
}

/** Replaces this process with the program, which gets its input, output and signals. */
[[noreturn]] void become(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  throw UsageError{"'" + words.front() + "' cannot be run: " + std::strerror(errno), "",
                   "a program and its arguments after --"};
}

void use_virtual_gpus(const RunOptions& options) {
  require_schedule(options.schedule);
  const VirtualCuda libraries = find_virtual_cuda();
  let_loader_find(libraries);
  set("MILLRACE_VIRTUAL", options.schedule);
  if (options.check) check(libraries);
  if (std::getenv("MILLRACE_VIRTUAL_REPORT") == nullptr) set("MILLRACE_VIRTUAL_REPORT", "-");
}

/** Whether cudaMalloc stays the runtime's own. Memory that the program shares with other processes
 * must come from the runtime, and the later export is not known at the time of the request. */
bool leaves_malloc(const RunOptions& options) {
  if (options.leaves_malloc && options.serves_malloc)
    throw UsageError{"it cannot be used with --leave-malloc", "--serve-malloc", "one of the two"};
  if (options.leaves_malloc || options.serves_malloc) return options.leaves_malloc;
  const std::string& program = options.program.front();
  if (!calls_function(program, "cudaIpcGetMemHandle")) return false;
  std::cerr << "millrace run: '" << program
            << "' shares memory with other processes (cudaIpcGetMemHandle), so its cudaMalloc "
               "stays the runtime's own; --serve-malloc serves it from Millrace\n";
  return true;
}

void use_millrace(const RunOptions& options) {
  require_catchable(options.program.front());
  const Interposer interposer = find_interposer();
  put_first("LD_PRELOAD", {interposer.library});
  // Insert it in front of an auditor that ignores bindings. Otherwise glibc 2.36 does not report
  // look-ups through dlsym.
  put_first("LD_AUDIT", {interposer.auditor});
  if (std::getenv("MILLRACE_RUN_REPORT") == nullptr) set("MILLRACE_RUN_REPORT", "-");
  set("MILLRACE_RUN_JSON", options.json ? place_for_report(*options.json) : "");
  set("MILLRACE_RUN_WHAT_IF", options.what_if ? "1" : "");
  set("MILLRACE_RUN_RECORD", options.record ? place_for_trace(*options.record) : "");
  set("MILLRACE_RUN_SNAPSHOT", options.snapshot ? place_for_snapshot(*options.snapshot) : "");
  set("MILLRACE_RUN_POLICY", options.waits ? "millrace" : "");
  set("MILLRACE_RUN_LEAVE", leaves_malloc(options) ? "cudaMalloc" : "");
}

/** Refuses options that need Millrace's allocator. */
void refuse_without_millrace(const RunOptions& options) {
  const char* const given = options.waits           ? "--wait"
                            : options.leaves_malloc ? "--leave-malloc"
                            : options.serves_malloc ? "--serve-malloc"
                            : options.what_if       ? "--what-if"
                            : options.record        ? "--record"
                            : options.snapshot      ? "--snapshot"
                            : options.json          ? "--json"
                                                    : nullptr;
  if (given != nullptr)
    throw UsageError{"it has no effect if the program keeps its own allocator", given,
                     "--allocator millrace without --check"};
}

/** Whether the program keeps its allocator, so that Millrace's library is not loaded into it. */
bool keeps_own(const RunOptions& options) {
  if (options.check && (options.what_if || options.record))
    throw UsageError{"it cannot be used with --check", options.what_if ? "--what-if" : "--record",
                     "one of the two"};
  if (options.allocator == "millrace") {
    if (!options.check) return false;
    throw UsageError{"the checker follows the program's own allocator", "--allocator millrace",
                     "--check without --allocator"};
  }
  if (options.allocator == "own") return true;
  if (!options.allocator.empty())
    static_cast<void>(
        read_name("--allocator", "allocator", options.allocator, {"millrace", "own"}));
  if (options.check) return true;
  if (options.schedule.empty() || has_interposer()) return false;
  std::cerr << "millrace run: this build has no library for other programs; the program keeps its "
               "own allocator\n";
  return true;
}

void run_given_program(const RunOptions& options) {
  const bool own = keeps_own(options);
  if (options.check && options.schedule.empty())
    throw UsageError{"only the virtual CUDA runtime checks", "--check", "--virtual SCHEDULE"};
  if (own) refuse_without_millrace(options);
  if (own && options.schedule.empty())
    throw UsageError{"nothing would differ from running the program itself", "--allocator own",
                     "--virtual SCHEDULE, or --allocator millrace"};
  if (!options.schedule.empty()) use_virtual_gpus(options);
  if (!own) use_millrace(options);
  become(options.program);
}

}  // namespace

void add_run(CLI::App& program) {
  Command command{
      program, "run",
      "Runs a CUDA program on Millrace's allocator, and without a GPU on the virtual CUDA "
      "runtime"};
  const auto given = std::make_shared<RunOptions>();
  command.add("--virtual", given->schedule, "SCHEDULE",
              "Run on virtual GPUs (default: this machine's GPUs). SCHEDULE says when work takes "
              "effect: instant, lag:N, adversarial:SEED, or a device profile for virtual time. "
              "',profile=NAME', ',gpus=N' and ',memory=SIZE' may follow");
  command.add("--allocator", given->allocator, "NAME",
              "Use this allocator: millrace (default) serves the program's requests to the shared "
              "CUDA runtime; own keeps the program's allocator (default with --check, and in "
              "builds without the library for it)");
  command.flag("--what-if", given->what_if,
               "Keep the program's allocator, and report what Millrace would have reserved");
  command.output("--record", given->record, "FILE",
                 "Keep the program's allocator, and write a trace of the program for millrace "
                 "replay",
                 Result::further);
  command.output("--snapshot", given->snapshot, "FILE",
                 "Write what Millrace's allocator did and holds at the end as a PyTorch snapshot, "
                 "with the stacks of allocations, for its viewer",
                 Result::further);
  command.output("--json", given->json, "FILE.json",
                 "Write the report as JSON to this file as well", Result::further);
  command.flag(
      "--check", given->check,
      "Report accesses of memory that are not ordered. A program that has some ends with 4 where "
      "it would end with 0");
  command.flag("--wait", given->waits,
               "Make a stream wait before Millrace reserves memory; not for programs whose kernels "
               "wait for each other across streams");
  command.flag("--leave-malloc", given->leaves_malloc,
               "Leave cudaMalloc to the runtime, for programs that share such memory with other "
               "processes (default if the program itself calls cudaIpcGetMemHandle)");
  command.flag(
      "--serve-malloc", given->serves_malloc,
      "Serve cudaMalloc even if the program calls cudaIpcGetMemHandle; that call then fails");
  command
      .add("COMMAND", given->program, "", "Run this program, with its arguments; write it after --")
      .required();
  command.examples(
      {{"millrace run -- ./app --steps 10",
        "Runs ./app on Millrace's allocator, and prints what that reserved."},
       {"millrace run --virtual adversarial:7 --check -- ./app",
        "Runs work as late as CUDA allows, in an unfavorable order, and names races."}});
  command.run([given] { run_given_program(*given); });
}

}  // namespace millrace::cli
