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
  /** @param file  nothing or "-": standard output  @throws UsageError if it can not be written */
  explicit Output(const std::optional<std::string>& file);

  [[nodiscard]] bool to_stdout() const noexcept { return file_.empty(); }
  /** @brief Once. @throws UsageError if there is no room, or nobody reads */
  void write(std::string_view text) const;

 private:
  std::filesystem::path file_;
};

}  // namespace millrace::cli
