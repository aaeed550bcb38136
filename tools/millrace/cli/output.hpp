#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::cli {

/** @brief Whether what goes there is read by a person, who likes colours: NO_COLOR says no. */
[[nodiscard]] bool colours_on_stdout();

/**
 * @brief Where a command's result goes: standard output, or a file that appears whole or not at
 * all.
 *
 * Made before the work begins: a place that can not be written to is refused then. The content is
 * written beside the file, which it replaces once it is complete.
 */
class Output {
 public:
  /**
   * @param file    nothing or "-": standard output
   * @param option  where the user said so
   * @throws UsageError if it can not be written
   */
  explicit Output(const std::optional<std::string>& file, std::string option = "-o");

  [[nodiscard]] bool to_stdout() const noexcept { return file_.empty(); }
  /** @brief Once. @throws UsageError if there is no room, or nobody reads */
  void write(std::string_view text) const;
  /** @brief Whether both would be written to one file. */
  [[nodiscard]] bool same_as(const Output& other) const;

 private:
  [[noreturn]] void refuse(const std::string& reason) const;

  std::string option_;
  std::filesystem::path file_;
};

}  // namespace millrace::cli
