#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "page/page_data.hpp"

/// @file
/// The option `--html`, the same for each command.

namespace millrace::cli {

/** @brief Adds `--html`. */
void add_page_option(Command& command, std::optional<std::string>& file);

/** @brief The file of `--html`: whole, or not at all. */
class PageOutput {
 public:
  /** @brief Before the work begins. @throws UsageError if the file cannot be written, or this
   *         program has no viewer */
  explicit PageOutput(const std::string& file);

  /** @throws UsageError if the disk is full */
  void write(const PageData& data) const;

 private:
  Output output_;
};

}  // namespace millrace::cli
