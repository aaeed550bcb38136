#include "cli/command.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/error.hpp"
#include "cli/results.hpp"
#include "commands.hpp"
#include "doctor/findings.hpp"
#include "doctor/runtime.hpp"

namespace millrace::cli {
namespace {

struct DoctorArguments : ResultArguments {
  bool runtime = false;
  std::string pattern;
};

void run_doctor(const DoctorArguments& arguments) {
  const Results results{arguments};
  if (!arguments.runtime && !arguments.pattern.empty())
    throw UsageError{"it has no effect without --runtime", "--functions", "--runtime as well"};
  if (arguments.runtime) {
    results.write([&](const Painter& paint) { return runtime_text(paint, arguments.pattern); },
                  [&] { return runtime_document(arguments.pattern); });
    return;
  }
  const MachineFacts facts = machine_facts();
  results.write([&](const Painter&) { return to_text(facts); }, [&] { return to_document(facts); });
}

}  // namespace

void add_doctor(CLI::App& program) {
  Command command{program, "doctor",
                  "Shows what this machine has (CUDA, driver, GPUs, NCCL) and what works on it"};
  const auto given = std::make_shared<DoctorArguments>();
  command.flag(
      "--runtime", given->runtime,
      "Show what the virtual CUDA runtime (millrace run) does with each function of CUDA, instead "
      "of the machine");
  command.add(
      "--functions", given->pattern, "NAME",
      "With --runtime, show only functions whose names contain this text; * and ? stand for any "
      "letters");
  add_result_options(command, *given);
  command.examples({{"millrace doctor", "Shows what works here, and how to get what does not."},
                    {"millrace doctor --runtime --functions 'cuda*Async'",
                     "Shows which of these functions of CUDA programs can call without a GPU."}});
  command.run([given] { run_doctor(*given); });
}

}  // namespace millrace::cli
