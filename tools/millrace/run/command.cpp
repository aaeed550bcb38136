#include "cli/command.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/error.hpp"
#include "commands.hpp"
#include "engine/settings.hpp"
#include "run/libraries.hpp"

namespace millrace::cli {
namespace {

struct RunOptions {
  std::string schedule;
  bool check = false;
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

/** Puts `words` before what a list of the environment, with colons between its words, has. */
void put_first(const char* variable, const std::vector<std::string>& words) {
  const char* const before = std::getenv(variable);
  std::string list;
  for (const std::string& word : words) list += word + ':';
  list += before == nullptr ? "" : before;
  if (list.back() == ':') list.pop_back();
  set(variable, list);
}

/** The loader takes ours for NVIDIA's, also where a program says in which folder those are. */
void let_loader_find(const VirtualCuda& libraries) {
  put_first("LD_LIBRARY_PATH", libraries.folders);
  if (libraries.auditor.empty()) return;
  put_first("LD_AUDIT", {libraries.auditor});
  set("MILLRACE_VIRTUAL_LIBRARIES", libraries.root);
}

/** Becomes the program: its input, output, signals and exit code are its own. */
[[noreturn]] void become(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  throw UsageError{"'" + words.front() + "' cannot be run: " + std::strerror(errno), "",
                   "a program and its arguments after --"};
}

void run_program_on_virtual_gpus(const RunOptions& options) {
  require_schedule(options.schedule);
  let_loader_find(find_virtual_cuda());
  set("MILLRACE_VIRTUAL", options.schedule);
  if (options.check) set("MILLRACE_VIRTUAL_CHECK", "on");
  if (std::getenv("MILLRACE_VIRTUAL_REPORT") == nullptr) set("MILLRACE_VIRTUAL_REPORT", "-");
  become(options.program);
}

}  // namespace

void add_run(CLI::App& program) {
  Command command{program, "run",
                  "Runs a CUDA program without a GPU, on Millrace's virtual CUDA runtime"};
  const auto given = std::make_shared<RunOptions>();
  command
      .add("--virtual", given->schedule, "SCHEDULE",
           "When work takes effect: instant, lag:N, adversarial:SEED, or a device profile for "
           "virtual time; ',profile=NAME', ',gpus=N' and ',memory=SIZE' may follow")
      .required();
  command.flag("--check", given->check,
               "Name accesses of memory that nothing orders; a program that ends with 0 then ends "
               "with 4 if there were any");
  command.add("program", given->program, "COMMAND", "The program and its arguments, after --")
      .required();
  command.examples(
      {{"millrace run --virtual h200,gpus=2 -- ./app --steps 10",
        "Runs ./app on two modelled H200 GPUs, and prints its memory, calls and virtual time."},
       {"millrace run --virtual adversarial:7 --check -- ./app",
        "Lets work take effect as late and in as unlucky an order as is legal, and names races."}});
  command.run([given] { run_program_on_virtual_gpus(*given); });
}

}  // namespace millrace::cli
