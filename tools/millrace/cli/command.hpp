#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/file_use.hpp"

namespace millrace::cli {

/** @brief What a command writes with a file that an option names. */
enum class Result {
  main,      ///< the result itself, instead of on standard output
  in_place,  ///< a second form of the result; with "-" it replaces the text on standard output
  further,   ///< a further result, beside all others
  resumed,   ///< as `further`, and it may be the file of --load
};

/** @brief Headings of the help. An option that names files stands under one of the two. */
inline constexpr const char* kFilesRead = "Files that are read";
inline constexpr const char* kFilesWritten = "Files that are written";

/** @brief The end of a help text: commands, each with a sentence on what it does. */
[[nodiscard]] std::string examples_text(
    const std::vector<std::pair<std::string, std::string>>& commands);

/**
 * @brief A command and its options.
 *
 * An option that names a file says whether the file is read or written. Before the command does any
 * work, the files are compared: see `refuse_overlaps`.
 */
class Command {
 public:
  /** @brief The files that an option's value stands for; none if the value is a name. */
  using FilesOf = std::function<std::vector<UsedPath>(const std::string& value)>;

  Command(CLI::App& parent, const std::string& name, const std::string& description);

  /**
   * @brief An option with a value. Given several times, the last value counts; a vector gets all.
   * @param shape  what a value looks like: "N", "NAME"
   */
  template <typename Value>
  CLI::Option& add(const std::string& name, Value& value, const char* shape,
                   const std::string& help) {
    CLI::Option* const option = app_.add_option(name, value, help)->type_name(shape);
    const bool positional = !name.starts_with('-');
    if (!positional && std::is_same_v<Value, std::vector<std::string>>)
      option->allow_extra_args(false);
    if (!positional && !std::is_same_v<Value, std::vector<std::string>>) option->take_last();
    put_under_heading(*option);
    return *option;
  }
  void flag(const std::string& name, bool& value, const std::string& help) {
    put_under_heading(*app_.add_flag(name, value, help));
  }
  /** @brief The heading in the help of options that are added from now on; "" is the usual one.
   *         Options that name files have headings of their own. */
  void heading(const std::string& text) { heading_ = text; }
  /**
   * @brief A former name of an option with this value: accepted, and not shown in help.
   * @param present  the option's name; messages suggest it for names that are near the former one
   */
  template <typename Value>
  void former(const std::string& name, const std::string& present, Value& value) {
    add(name, value, "", present).group("");
  }
  /** @brief Commands that the help ends with, each with a sentence on what it does. */
  void examples(const std::vector<std::pair<std::string, std::string>>& commands);

  /** @brief An option that names files to read. */
  template <typename Value>
  CLI::Option& input(const std::string& name, Value& value, const char* shape,
                     const std::string& help, FilesOf files = itself) {
    CLI::Option& option = add(name, value, shape, help);
    declare(option, std::move(files), false, Result::further);
    return option;
  }
  /** @brief An option that names files to write. */
  template <typename Value>
  CLI::Option& output(const std::string& name, Value& value, const char* shape,
                      const std::string& help, Result result, FilesOf files = itself) {
    CLI::Option& option = add(name, value, shape, help);
    declare(option, std::move(files), true, result);
    return option;
  }

  /** @brief Sets what the command does once all options are read. This object may be gone by then.
   */
  void run(std::function<void()> work);

  static std::vector<UsedPath> itself(const std::string& value) { return {UsedPath{value}}; }
  /** @brief For options whose value is a file, unless it is one of `names`. */
  [[nodiscard]] static FilesOf unless(std::vector<std::string> names);

 private:
  struct Files;

  void declare(CLI::Option& option, FilesOf files, bool written, Result result);
  void put_under_heading(CLI::Option& option) const {
    if (!heading_.empty()) option.group(heading_);
  }

  CLI::App& app_;
  std::string heading_;
  std::shared_ptr<Files> files_;
};

}  // namespace millrace::cli
