#include "cli/status_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;
constexpr auto kFirst = 1s;
constexpr auto kRedrawEvery = 100ms;
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

StatusLine::StatusLine() : shown_(::isatty(STDERR_FILENO) == 1) {}

StatusLine::~StatusLine() {
  if (on_screen_) fmt::print(stderr, "{}", kClearLine);
}

bool StatusLine::due() const {
  if (!shown_) return false;
  const auto now = Clock::now();
  return on_screen_ ? now - drawn_ >= kRedrawEvery : now - begin_ >= kFirst;
}

void StatusLine::show(std::string_view text) {
  struct winsize size {};  // a line that wraps could not be erased completely
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) {
    text = text.substr(0, size.ws_col - 1U);
  }
  fmt::print(stderr, "{}{}", kClearLine, text);
  std::fflush(stderr);
  drawn_ = Clock::now();
  on_screen_ = true;
}

double StatusLine::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

}  // namespace millrace::cli
