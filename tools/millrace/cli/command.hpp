#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/file_use.hpp"

namespace millrace::cli {

/** @brief What a command writes with a file that an option names. */
enum class Result {
  main,      ///< in place of standard output
  in_place,  ///< beside the text on standard output; "-" in place of it
  further,   ///< beside all others
  resumed,   ///< the same, and it may be the file of --load
};

/** @brief Headings of the help, by which options that name files are known. */
inline constexpr const char* kFilesRead = "Files that are read";
inline constexpr const char* kFilesWritten = "Files that are written";

/**
 * @brief A command and its options.
 *
 * An option that names a file says whether the file is read or written. Before the command does any
 * work, the files are compared: see `refuse_overlaps`.
 */
class Command {
 public:
  /** @brief Which files the value of an option stands for; none if it is the name of something. */
  using FilesOf = std::function<std::vector<UsedPath>(const std::string& value)>;

  Command(CLI::App& parent, const std::string& name, const std::string& description);

  /** @brief An option with a value, of several the last; with a vector, all of them.
   *  @param shape  what a value looks like: "N", "NAME" */
  template <typename Value>
  CLI::Option& add(const std::string& name, Value& value, const char* shape,
                   const std::string& help) {
    CLI::Option* const option = app_.add_option(name, value, help)->type_name(shape);
    const bool positional = !name.starts_with('-');
    if (!positional && std::is_same_v<Value, std::vector<std::string>>)
      option->allow_extra_args(false);
    if (!positional && !std::is_same_v<Value, std::vector<std::string>>) option->take_last();
    return *option;
  }
  void flag(const std::string& name, bool& value, const std::string& help) {
    app_.add_flag(name, value, help);
  }

  /** @brief An option that names what is read. */
  template <typename Value>
  CLI::Option& input(const std::string& name, Value& value, const char* shape,
                     const std::string& help, FilesOf files = itself) {
    CLI::Option& option = add(name, value, shape, help);
    declare(option, std::move(files), false, Result::further);
    return option;
  }
  /** @brief An option that names what is written. */
  template <typename Value>
  CLI::Option& output(const std::string& name, Value& value, const char* shape,
                      const std::string& help, Result result, FilesOf files = itself) {
    CLI::Option& option = add(name, value, shape, help);
    declare(option, std::move(files), true, result);
    return option;
  }

  /** @brief What the command does once all options are there. The command may go before that. */
  void run(std::function<void()> work);

  static std::vector<UsedPath> itself(const std::string& value) { return {UsedPath{value}}; }
  /** @brief The value is a file, unless it is one of these names. */
  [[nodiscard]] static FilesOf unless(std::vector<std::string> names);

 private:
  struct Files;

  void declare(CLI::Option& option, FilesOf files, bool written, Result result);

  CLI::App& app_;
  std::shared_ptr<Files> files_;
};

}  // namespace millrace::cli
