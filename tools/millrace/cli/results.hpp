#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"

/// @file
/// Options for the results of a command, the same for each: `--format`, `-o` and `--json`.

namespace millrace::cli {

/** @brief What the user typed. */
struct ResultArguments {
  std::string format = "text";
  std::optional<std::string> output, json;
};

/** @brief Adds `--format`, `--json` and `-o`. */
void add_result_options(Command& command, ResultArguments& given);

/** @brief Adds `--wide`, for a table whose first screen has few columns. */
void add_wide_option(Command& command, bool& wide);

/** @brief Writes a command's results in the formats and to the places that were asked for. */
class Results {
 public:
  /** @brief Before the work begins: opens the places. @throws UsageError */
  explicit Results(const ResultArguments& given);

  /** @param text      makes the text; the painter colors it if it goes to a terminal
   *  @param document  makes the JSON document
   *  @throws UsageError if a place cannot be written */
  void write(const std::function<std::string(const Painter&)>& text,
             const std::function<nlohmann::ordered_json()>& document) const;

 private:
  friend class RunningResults;

  bool json_is_main_;
  std::optional<Output> main_;  ///< none: `--json` has standard output
  std::optional<Output> json_;
};

/**
 * @brief The results of a command that prints while it works.
 *
 * Text for standard output is printed at once. Text for a file is collected, and written whole by
 * `finish`.
 */
class RunningResults {
 public:
  /** @brief As `Results`. @throws UsageError */
  explicit RunningResults(const ResultArguments& given) : results_(given) {}

  /** @brief Colors text that goes to a terminal. */
  [[nodiscard]] Painter painter() const;
  /** @brief The next part of the text; ignored if the results are written as JSON only. */
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
