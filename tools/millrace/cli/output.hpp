#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::cli {

/** @brief Whether standard output is a terminal that shows colors, and NO_COLOR is not set. */
[[nodiscard]] bool colours_on_stdout();

/**
 * @brief Where a command's result goes: standard output, or a file that appears whole or not at
 *        all (`WholeFile`).
 *
 * Construct it before the work begins: the constructor refuses a place that cannot be written to.
 * `Command` checks that the place is not that of another result or of an input.
 */
class Output {
 public:
  /**
   * @param file    a path; standard output for nothing, "-" or a path that leads there
   * @param option  the option with which the user chose `file`, for error messages
   * @throws UsageError if the place cannot be written to
   */
  explicit Output(const std::optional<std::string>& file, std::string option = "-o");

  [[nodiscard]] bool to_stdout() const noexcept { return file_.empty(); }
  /**
   * @brief Writes the whole result. Call it once.
   * @throws UsageError if the disk is full, or if the reader has closed the pipe
   */
  void write(std::string_view text) const;

 private:
  [[noreturn]] void refuse(const std::string& reason) const;

  std::string option_;
  std::filesystem::path file_;
};

}  // namespace millrace::cli
