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
  main,      ///< the main result; it replaces the text on standard output
  in_place,  ///< a second form of the result; with "-" it replaces the text on standard output
  further,   ///< an additional result
  resumed,   ///< like `further`, and it may be the file of --load
};

/** @brief Headings in the help. Each option that names files is under one of these two. */
inline constexpr const char* kFilesRead = "Files that are read";
inline constexpr const char* kFilesWritten = "Files that are written";

/** @brief The "Examples" part of a help text: commands, each with a sentence on what it does. */
[[nodiscard]] std::string examples_text(
    const std::vector<std::pair<std::string, std::string>>& commands);

/**
 * @brief A command and its options.
 *
 * An option that names a file says whether the command reads or writes the file. Before the work
 * begins, the command compares all files and refuses overlaps: see `refuse_overlaps`.
 */
class Command {
 public:
  /** @brief Maps an option's value to the files that it names; no files if the value is a known
   *         name. */
  using FilesOf = std::function<std::vector<UsedPath>(const std::string& value)>;

  Command(CLI::App& parent, const std::string& name, const std::string& description);

  /**
   * @brief Adds an option with a value. If it is given several times, the last value counts; a
   *        vector receives all values.
   * @param shape  placeholder for the value in the help: "N", "NAME"
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
  /** @brief Sets the help heading for options that are added later. "" is the default heading.
   *         Options that name files have their own headings. */
  void heading(const std::string& text) { heading_ = text; }
  /**
   * @brief Adds a former name of an option. It is accepted, and the help does not show it.
   * @param present  the current name of the option; messages suggest it if the user mistypes the
   *                 former name
   */
  template <typename Value>
  void former(const std::string& name, const std::string& present, Value& value) {
    add(name, value, "", present).group("");
  }
  /** @brief Adds examples at the end of the help: commands, each with a sentence on what it does.
   */
  void examples(const std::vector<std::pair<std::string, std::string>>& commands);

  /** @brief Adds an option that names files to read. */
  template <typename Value>
  CLI::Option& input(const std::string& name, Value& value, const char* shape,
                     const std::string& help, FilesOf files = itself) {
    CLI::Option& option = add(name, value, shape, help);
    declare(option, std::move(files), false, Result::further);
    return option;
  }
  /** @brief Adds an option that names files to write. */
  template <typename Value>
  CLI::Option& output(const std::string& name, Value& value, const char* shape,
                      const std::string& help, Result result, FilesOf files = itself) {
    CLI::Option& option = add(name, value, shape, help);
    declare(option, std::move(files), true, result);
    return option;
  }

  /** @brief Sets the work that runs after all options are read. This object may be destroyed
   *         earlier. */
  void run(std::function<void()> work);

  static std::vector<UsedPath> itself(const std::string& value) { return {UsedPath{value}}; }
  /** @brief For an option whose value is either a file or one of `names`. */
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
