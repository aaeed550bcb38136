#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::cli {

/** @brief Whether a person reads standard output, on a terminal that shows colours: NO_COLOR says
 * no. */
[[nodiscard]] bool colours_on_stdout();

/**
 * @brief Where a command's result goes: standard output, or a file that appears whole or not at
 *        all (`WholeFile`).
 *
 * Made before the work begins: a place that can not be written to is refused then. That it is not
 * the place of another result, nor of an input, is the `Command`'s business.
 */
class Output {
 public:
  /**
   * @param file    nothing, "-" or a path that leads to standard output: standard output
   * @param option  where the user said so
   * @throws UsageError if it can not be written
   */
  explicit Output(const std::optional<std::string>& file, std::string option = "-o");

  [[nodiscard]] bool to_stdout() const noexcept { return file_.empty(); }
  /** @brief Once. @throws UsageError if there is no room, or nobody reads */
  void write(std::string_view text) const;

 private:
  [[noreturn]] void refuse(const std::string& reason) const;

  std::string option_;
  std::filesystem::path file_;
};

}  // namespace millrace::cli
