#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::cli {

/** @brief Whether standard output is a terminal that shows colors, and NO_COLOR is not set. */
[[nodiscard]] bool colors_on_stdout();

/**
 * @brief The place of a command's result: standard output, or a file.
 *
 * The file appears only when it is complete (`WholeFile`). Construct an Output before the work
 * begins: the constructor refuses a place that cannot be written to. `Command` checks that the
 * place is not an input or the place of another result.
 */
class Output {
 public:
  /**
   * @param file    a path; nothing, "-" or a path that leads there means standard output
   * @param option  the option that named `file`, for error messages
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
