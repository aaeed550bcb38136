#include "cli/help.hpp"

#include <algorithm>

#include "cli/fitted.hpp"
#include "cli/page.hpp"
#include "cli/text.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kNames = 34, kNamesOfNarrow = 18;
constexpr std::size_t kNarrow = 80;

}  // namespace

HelpFormatter::HelpFormatter() { column_width(page_width() < kNarrow ? kNamesOfNarrow : kNames); }

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
