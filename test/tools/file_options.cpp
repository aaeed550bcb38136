#include "test/tools/file_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>

#include "cli/command.hpp"
#include "cli/program.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

/// Value names of options that name no file. An option with another value name must be declared as
/// a file that is read or written, or its value name must be added here.
constexpr std::array<std::string_view, 20> kNoFiles{
    "",    "N",    "N,N",  "S",   "F",        "X",     "X,Y",    "A,B|all", "NAME",    "KIND",
    "SET", "SIZE", "WHAT", "WAY", "STRATEGY", "WHERE", "POLICY", "MS",      "SECONDS", "SCHEDULE"};

bool names_no_file(const CLI::Option& option) {
  const std::string shape = option.get_type_name();
  if (option.get_name() == "COMMAND") return true;  // the words of another program
  return !option.get_positional() && (std::ranges::find(kNoFiles, shape) != kNoFiles.end() ||
                                      shape == "RATIO" || shape == "TABLE");
}

FileOption described(const CLI::Option& option) {
  FileOption file{.positional = option.get_positional(), .required = option.get_required()};
  file.name = option.get_name(file.positional);
  file.shown = file.positional || option.get_snames().empty() ? file.name
                                                              : "-" + option.get_snames().front();
  file.written = option.get_group() == cli::kFilesWritten;
  const std::string shape = file.positional ? file.name : option.get_type_name();
  file.sink = shape == "SINK" || shape == "SOURCE";
  return file;
}

void collect(const CLI::App& app, std::vector<std::string> words, std::vector<CommandFiles>& all) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* const command : commands) {
    std::vector<std::string> longer = words;
    longer.push_back(command->get_name());
    collect(*command, longer, all);
  }
  CommandFiles files{std::move(words), {}};
  for (const CLI::Option* const option : app.get_options()) {
    const std::string group = option->get_group();
    if (group == cli::kFilesRead || group == cli::kFilesWritten) {
      files.options.push_back(described(*option));
      continue;
    }
    INFO(app.get_name() << ' ' << option->get_name(true, true) << ": does it name a file?");
    CHECK(names_no_file(*option));
  }
  if (commands.empty()) all.push_back(std::move(files));
}

}  // namespace

std::vector<std::string> FileOption::words(const std::string& place) const {
  const std::string value = sink ? "file:" + place : place;
  return positional ? std::vector<std::string>{value} : std::vector<std::string>{name, value};
}

std::vector<CommandFiles> all_commands() {
  std::vector<CommandFiles> all;
  collect(*cli::make_program(), {}, all);
  return all;
}

}  // namespace millrace::test
