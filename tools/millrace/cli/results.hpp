#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"

/// @file
/// Options for the results of a command: `--format`, `-o` and `--json`. All commands share them.

namespace millrace::cli {

/** @brief The values of the options, not checked yet. */
struct ResultArguments {
  std::string format = "text";
  std::optional<std::string> output, json;
};

/** @brief Adds `--format`, `--json` and `-o`. */
void add_result_options(Command& command, ResultArguments& given);

/** @brief Adds `--wide`, for a table whose first screen has few columns. */
void add_wide_option(Command& command, bool& wide);

/** @brief Writes a command's results in the requested formats to the requested places. */
class Results {
 public:
  /** @brief Opens the places. Construct it before the work begins. @throws UsageError */
  explicit Results(const ResultArguments& given);

  /**
   * @param text      makes the text; the painter adds colors if the text goes to a terminal
   * @param document  makes the JSON document
   * @throws UsageError if a place cannot be written
   */
  void write(const std::function<std::string(const Painter&)>& text,
             const std::function<nlohmann::ordered_json()>& document) const;

 private:
  friend class RunningResults;

  bool json_is_main_;
  std::optional<Output> main_;  ///< empty if `--json` writes to standard output
  std::optional<Output> json_;
};

/**
 * @brief The results of a command that prints while it works.
 *
 * Text for standard output is printed immediately. Text for a file is collected, and `finish`
 * writes it in one piece.
 */
class RunningResults {
 public:
  /** @brief Opens the places, like `Results`. @throws UsageError */
  explicit RunningResults(const ResultArguments& given) : results_(given) {}

  /** @brief The painter for `say`. It adds colors if the text goes to a terminal. */
  [[nodiscard]] Painter painter() const;
  /** @brief Adds the next part of the text. Does nothing if the results are written only as JSON.
   */
  void say(const std::string& part);
  /** @brief Call it once, at the end.
   *  @param document  makes the JSON document
   *  @throws UsageError if a place cannot be written */
  void finish(const std::function<nlohmann::ordered_json()>& document) const;

 private:
  [[nodiscard]] bool prints() const;

  Results results_;
  std::string collected_;  ///< text for a file
};

}  // namespace millrace::cli
