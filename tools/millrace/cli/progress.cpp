#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;
constexpr auto kFirst = 1s;
constexpr auto kEvery = 100ms;
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

Progress::Progress(std::string what, std::size_t all)
    : what_(std::move(what)), all_(all), shown_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (on_screen_) fmt::print(stderr, "{}", kClearLine);
}

void Progress::advance(std::string_view about) {
  const std::lock_guard lock{mutex_};
  ++done_;
  const auto now = Clock::now();
  if (!shown_ || now - begin_ < kFirst || (on_screen_ && now - drawn_ < kEvery)) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
  const std::string of = all_ == 0 ? "" : fmt::format(" of {}", all_);
  fmt::print(stderr, "{}{}: {}{}, {} s  {}", kClearLine, what_, done_, of, seconds, about);
  std::fflush(stderr);
  drawn_ = now;
  on_screen_ = true;
}

}  // namespace millrace::cli
