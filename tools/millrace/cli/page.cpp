#include "cli/page.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "millrace/text/parse_number.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kLeast = 40, kMost = 119;
constexpr std::size_t kUsual = 80;  ///< for files and pipes, and for a terminal of unknown width

/** 0 if COLUMNS is not set or not a number. */
std::size_t width_from_environment() {
  const char* const columns = std::getenv("COLUMNS");
  return columns == nullptr ? 0 : text::parse_number<std::size_t>(columns).value_or(0);
}

std::size_t width_of_terminal() {
  struct winsize size {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::size_t page_width() {
  std::size_t width = width_from_environment();
  if (width == 0) width = width_of_terminal();
  return width == 0 ? kUsual : std::clamp(width, kLeast, kMost);
}

}  // namespace millrace::cli
