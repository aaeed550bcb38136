#include "cli/help.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/fitted.hpp"
#include "cli/page.hpp"
#include "cli/text.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kNames = 34, kNamesOfNarrow = 18;
constexpr std::size_t kNarrow = 80;

/** Sort key of an option group in the help. */
int place_of(const std::string& group) {
  if (group == kFilesRead) return 0;
  if (group == kFilesWritten) return 3;
  return group == "Options" ? 2 : 1;
}

}  // namespace

HelpFormatter::HelpFormatter() { column_width(page_width() < kNarrow ? kNamesOfNarrow : kNames); }

std::string HelpFormatter::groups_of(const CLI::App* app) const {
  std::vector<std::string> groups = app->get_groups();
  std::ranges::stable_sort(groups, {}, place_of);
  std::string text;
  for (const std::string& group : groups) {
    const auto options = app->get_options([&](const CLI::Option* option) {
      return option->get_group() == group && option->nonpositional();
    });
    if (!group.empty() && !options.empty()) text += make_group(group, false, options);
  }
  return text;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  if (mode == CLI::AppFormatMode::Sub) return make_expanded(app);
  return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) +
         groups_of(app) + make_subcommands(app, mode) + '\n' + make_footer(app);
}

std::string HelpFormatter::in_column(const std::string& text) const {
  return wrap(text, page_width() - std::min(page_width(), get_column_width()), 0);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrap(Formatter::make_description(app), page_width(), 0);
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  return fitted(Formatter::make_footer(app));
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return in_column(Formatter::make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  std::ostringstream out;
  CLI::detail::format_help(out, command->get_name(), in_column(command->get_description()),
                           get_column_width());
  return out.str();
}

}  // namespace millrace::cli
