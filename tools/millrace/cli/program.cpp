#include "cli/program.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"
#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/help.hpp"
#include "cli/standard_output.hpp"
#include "cli/suggestions.hpp"
#include "cli/text.hpp"
#include "commands.hpp"
#include "millrace/config.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace::cli {
namespace {

void log_to_stderr() {
  auto logger = spdlog::stderr_color_mt("millrace");
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

std::string one_line(std::string_view text) {
  std::string line = printable(text.substr(0, text.find('\n')));
  constexpr std::size_t most = 400;
  if (line.size() <= most) return line;
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;  // UTF-8
  return line.substr(0, end) + "...";
}

/** Removes secrets from all addresses in the text. Any message may repeat an option's value. */
std::string without_secrets(std::string_view text) {
  constexpr std::string_view kEnds = " '\"\n";
  std::string shown;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(kEnds));
    shown += word.find("://") == std::string_view::npos ? std::string{word} : redacted(word);
    text.remove_prefix(word.size());
    if (text.empty()) break;
    shown += text.front();
    text.remove_prefix(1);
  }
  return shown;
}

/** Moves the text " (expected ...)" of a library's message to the line `right`. It replaces the
 * text of the command because it is more specific, and often both are the same. */
UsageError with_one_right(const UsageError& error) {
  constexpr std::string_view kExpected = " (expected ";
  const std::string what = error.what();
  const std::size_t at = what.rfind(kExpected);
  if (at == std::string::npos || !what.ends_with(')')) return error;
  const std::size_t from = at + kExpected.size();
  return UsageError{what.substr(0, at), error.where(), what.substr(from, what.size() - from - 1)};
}

// Prints the message in one call, because other processes may write to the same terminal.
void print_error(std::string_view command, const UsageError& given) {
  const UsageError error = with_one_right(given);
  const bool is_hint = error.right() != given.right();  // from a library, without secrets
  std::string text = fmt::format("{}: {}\n", command, one_line(without_secrets(error.what())));
  if (!error.where().empty())
    text += fmt::format("  where: {}\n", one_line(without_secrets(error.where())));
  if (!error.right().empty())
    text += fmt::format("  right: {}\n",
                        one_line(is_hint ? error.right() : without_secrets(error.right())));
  fmt::print(stderr, "{}", text);
}

/** The innermost command on the command line: `apply` in `millrace stream apply`. */
const CLI::App& chosen(const CLI::App& program) {
  const auto commands = program.get_subcommands();
  return commands.empty() ? program : chosen(*commands.front());
}

std::string full_name(const CLI::App& program) {
  const auto commands = program.get_subcommands();
  return commands.empty() ? program.get_name()
                          : program.get_name() + ' ' + full_name(*commands.front());
}

/** Maps each option name to the name to suggest. A former name maps to the current one. */
std::map<std::string, std::string> option_names(const CLI::App& command) {
  std::map<std::string, std::string> names;
  for (const CLI::Option* const option : command.get_options()) {
    const bool former = option->get_group().empty();
    for (const std::string& name : option->get_lnames())
      names["--" + name] = former ? option->get_description() : "--" + name;
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* const known : command.get_subcommands(nullptr))
    names.push_back(known->get_name());
  return names;
}

UsageError unexpected(const CLI::App& program) {
  const CLI::App& command = chosen(program);
  const std::vector<std::string> extras = program.remaining(true);
  const std::string extra = extras.empty() ? "" : extras.front();
  if (extra.starts_with('-')) {
    const std::string flag = extra.substr(0, extra.find('='));
    return UsageError{fmt::format("unknown option '{}'", flag), "",
                      did_you_mean(flag, option_names(command),
                                   fmt::format("{} --help lists the options", full_name(program)))};
  }
  if (command.get_subcommands(nullptr).empty()) {
    return UsageError{fmt::format("'{}' is not expected here", extra), "",
                      fmt::format("{} --help lists what is", full_name(program))};
  }
  const std::vector<std::string> commands = command_names(command);
  return UsageError{fmt::format("unknown command '{}'", extra), "",
                    did_you_mean(extra, commands, fmt::format("{}", fmt::join(commands, ", ")))};
}

UsageError unfinished(const CLI::App& program, const CLI::ParseError& error) {
  const std::vector<std::string> commands = command_names(chosen(program));
  if (!commands.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return UsageError{"a command is required", "", fmt::format("{}", fmt::join(commands, ", "))};
  return UsageError{error.what(), "", fmt::format("{} --help", full_name(program))};
}

void set_up(CLI::App& program) {
  program.require_subcommand(1);
  program.footer(
      examples_text({{"millrace train --data synthetic --steps 200",
                      "Trains a model on a virtual GPU, and prints where its memory went."},
                     {"millrace explain snapshot.pickle",
                      "Explains the peak of a memory snapshot of PyTorch."}}));
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_help_flag("-h,--help", "Print this help and exit");
  program.set_version_flag("--version", "millrace " MILLRACE_VERSION, "Print the version and exit");
  program.add_flag_callback(
      "-v,--verbose", [] { spdlog::set_level(spdlog::level::debug); },
      "Print more messages on standard error");
  add_footprint(program);
  add_explain(program);
  add_replay(program);
  add_train(program);
  add_pipelines(program);
  add_stream(program);
  add_run(program);
  add_doctor(program);
}

int say_help(const CLI::App& program, const CLI::ParseError& error) {
  std::ostringstream text, none;
  const int exit_code = program.exit(error, text, none);
  print(text.view());
  return exit_code;
}

int parse_and_run(CLI::App& program, int argc, const char* const* argv) {
  try {
    program.parse(argc, argv);
    return 0;
  } catch (const CLI::ExtrasError&) {
    print_error(full_name(program), unexpected(program));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return say_help(program, error);
    if (argc <= 1) {
      fmt::print(stderr, "{}", program.help());
    } else if (!program.remaining(true).empty()) {  // explains the failure better
      print_error(full_name(program), unexpected(program));
    } else {
      print_error(full_name(program), unfinished(program, error));
    }
  }
  return number_of(ExitCode::failed);
}

int run(CLI::App& program, int argc, const char* const* argv) {
  try {
    return parse_and_run(program, argc, argv);
  } catch (const Ended& ended) {
    return ended.exit_code;
  }
}

/** Runs the command and prints all errors on stderr, including errors of writing to stdout. */
int run_to_the_end(CLI::App& program, int argc, const char* const* argv) {
  try {
    const int exit_code = run(program, argc, argv);
    finish_standard_output();
    return exit_code;
  } catch (const UsageErrors& several) {
    for (const UsageError& error : several.errors()) print_error(full_name(program), error);
  } catch (const UsageError& error) {
    print_error(full_name(program), error);
  } catch (const std::exception& error) {
    // out_of_memory is a bad_alloc with its own message. The message of a plain bad_alloc says
    // nothing.
    const bool plain = std::string_view{error.what()} == std::bad_alloc{}.what();
    print_error(full_name(program),
                plain ? UsageError{"this machine does not have enough memory", "",
                                   "a smaller input, or a machine with more memory"}
                      : UsageError{error.what()});
  }
  return number_of(ExitCode::failed);
}

}  // namespace

std::unique_ptr<CLI::App> make_program() {
  auto program = std::make_unique<CLI::App>(
      "Shows where the GPU memory of a training loop goes, and what that costs", "millrace");
  set_up(*program);
  return program;
}

int run_program(int argc, const char* const* argv) {
  prepare_standard_streams();
  log_to_stderr();
  return run_to_the_end(*make_program(), argc, argv);
}

}  // namespace millrace::cli
