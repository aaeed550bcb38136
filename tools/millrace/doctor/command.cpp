#include "cli/command.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/json_text.hpp"
#include "cli/output.hpp"
#include "cli/values.hpp"
#include "commands.hpp"
#include "doctor/findings.hpp"

namespace millrace::cli {
namespace {

struct DoctorArguments {
  std::string format = "text";
  std::optional<std::string> output;
};

void run_doctor(const DoctorArguments& arguments) {
  const bool json = read_name("--format", "format", arguments.format, {"text", "json"}) == "json";
  const Output output{arguments.output};
  const MachineFacts facts = machine_facts();
  output.write(json ? json_text(to_document(facts)) : to_text(facts));
}

}  // namespace

void add_doctor(CLI::App& program) {
  Command command{program, "doctor",
                  "Shows what this machine has (CUDA, driver, GPUs, NCCL) and what works on it"};
  const auto given = std::make_shared<DoctorArguments>();
  command.add("--format", given->format, "KIND", "Output format: text (default), json");
  command.output("-o,--output", given->output, "FILE",
                 "Write to this file, complete or not at all (default: standard output)",
                 Result::main);
  command.run([given] { run_doctor(*given); });
}

}  // namespace millrace::cli
