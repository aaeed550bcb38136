#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "page/page_data.hpp"

/// @file
/// The option `--html`, which all commands share.

namespace millrace::cli {

/** @brief Adds `--html`. */
void add_page_option(Command& command, std::optional<std::string>& file);

/** @brief The file of `--html`. It appears only when it is complete. */
class PageOutput {
 public:
  /** @brief Construct it before the work begins. @throws UsageError if the file cannot be written,
   *         or if this program has no viewer */
  explicit PageOutput(const std::string& file);

  /** @throws UsageError if the disk is full */
  void write(const PageData& data) const;

 private:
  Output output_;
};

}  // namespace millrace::cli
