#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace millrace::cli {

/**
 * @brief Formats the help to the page width. Lines break between words.
 *
 * Order of the headings: files that are read, the command's own headings, all other options, files
 * that are written.
 */
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option_desc(const CLI::Option* option) const override;

 private:
  [[nodiscard]] std::string groups_of(const CLI::App* app) const;
  [[nodiscard]] std::string in_column(const std::string& text) const;
};

}  // namespace millrace::cli
