#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace millrace::cli {

/** @brief Writes help as wide as the page: lines break between words. */
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option_desc(const CLI::Option* option) const override;

 private:
  [[nodiscard]] std::string in_column(const std::string& text) const;
};

}  // namespace millrace::cli
