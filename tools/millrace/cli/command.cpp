#include "cli/command.hpp"

#include <algorithm>
#include <utility>

namespace millrace::cli {
namespace {

std::string shown_name(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  return option.get_snames().empty() ? option.get_name() : "-" + option.get_snames().front();
}

struct FileOption {
  const CLI::Option* option;
  Command::FilesOf files;
  bool written;
  Result result;

  /** The values of the option; only the last one if the last value counts. */
  [[nodiscard]] std::vector<std::string> values() const {
    const std::vector<std::string>& all = option->results();
    if (all.size() < 2 || option->get_multi_option_policy() != CLI::MultiOptionPolicy::TakeLast) {
      return all;
    }
    return {all.back()};
  }
};

}  // namespace

struct Command::Files {
  std::vector<FileOption> options;

  [[nodiscard]] std::vector<FileUse> uses() const;
  /** @brief Whether an option writes its result to standard output in place of the text. */
  [[nodiscard]] bool text_is_replaced() const;
};

bool Command::Files::text_is_replaced() const {
  return std::ranges::any_of(options, [](const FileOption& of) {
    return of.written && of.result == Result::in_place &&
           std::ranges::any_of(of.values(), leads_to_stdout);
  });
}

std::vector<FileUse> Command::Files::uses() const {
  std::vector<FileUse> uses;
  bool report = true;  // whether the text of the command goes to standard output
  for (const FileOption& of : options) {
    const std::vector<std::string> values = of.values();
    FileUse use{.option = shown_name(*of.option), .written = of.written};
    if (of.result == Result::resumed) use.may_replace = "--load";
    const bool main = of.written && of.result == Result::main;
    if (main && values.empty()) use.standard_output = !text_is_replaced();
    for (const std::string& value : values) {
      use.standard_output = of.written && leads_to_stdout(value);
      if (use.standard_output) continue;
      for (const UsedPath& path : of.files(value)) {
        use.used = path;
        use.written = of.written && !path.only_read;
        uses.push_back(use);
      }
    }
    if (use.standard_output) uses.push_back(use);
    if (main || (use.standard_output && of.result == Result::in_place)) report = false;
  }
  if (report) {
    uses.push_back({.option = "the report", .written = true, .standard_output = true});
  }
  return uses;
}

Command::Command(CLI::App& parent, const std::string& name, const std::string& description)
    : app_(*parent.add_subcommand(name, description)), files_(std::make_shared<Files>()) {}

void Command::declare(CLI::Option& option, FilesOf files, bool written, Result result) {
  option.group(written ? kFilesWritten : kFilesRead);
  files_->options.push_back({&option, std::move(files), written, result});
}

Command::FilesOf Command::unless(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& value) {
    const bool name = std::ranges::find(names, value) != names.end();
    return name ? std::vector<UsedPath>{} : itself(value);
  };
}

std::string examples_text(const std::vector<std::pair<std::string, std::string>>& commands) {
  std::string text = "Examples:";
  for (const auto& [command, does] : commands) {
    text += "\n  " + command + "\n      " + does;
  }
  return text;
}

void Command::examples(const std::vector<std::pair<std::string, std::string>>& commands) {
  app_.footer(examples_text(commands));
}

void Command::run(std::function<void()> work) {
  app_.callback([files = files_, work = std::move(work)] {
    refuse_overlaps(files->uses());
    work();
  });
}

}  // namespace millrace::cli
