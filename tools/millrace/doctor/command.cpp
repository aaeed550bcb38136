#include "cli/command.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/results.hpp"
#include "commands.hpp"
#include "doctor/findings.hpp"

namespace millrace::cli {
namespace {

void run_doctor(const ResultArguments& arguments) {
  const Results results{arguments, "text"};
  const MachineFacts facts = machine_facts();
  results.write([&](const Painter&) { return to_text(facts); }, [&] { return to_document(facts); });
}

}  // namespace

void add_doctor(CLI::App& program) {
  Command command{program, "doctor",
                  "Shows what this machine has (CUDA, driver, GPUs, NCCL) and what works on it"};
  const auto given = std::make_shared<ResultArguments>();
  add_result_options(command, *given, "text");
  command.examples({{"millrace doctor", "Shows what works here, and how to get what does not."},
                    {"millrace doctor --json doctor.json", "Writes the same as JSON as well."}});
  command.run([given] { run_doctor(*given); });
}

}  // namespace millrace::cli
