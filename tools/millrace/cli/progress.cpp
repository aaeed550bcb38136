#include "cli/progress.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace millrace::cli {
namespace {

constexpr std::chrono::milliseconds kEvery{500};

}  // namespace

Progress::Progress(std::string what, std::size_t all) : what_(std::move(what)), all_(all) {
  if (!line_.shown()) return;
  shows_ = std::jthread{[this](const std::stop_token& stop) { show_while_it_lasts(stop); }};
}

void Progress::show_while_it_lasts(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stopped_.wait_for(lock, stop, kEvery, [] { return false; }) && !stop.stop_requested()) {
    show();
  }
}

void Progress::show() {
  if (!line_.due()) return;
  const std::string steps = steps_ == 0 ? "" : fmt::format(", {} steps", steps_);
  line_.show(fmt::format("{}: {} of {}{}, {:.0f} s  {}", what_, done_, all_, steps, line_.seconds(),
                         about_));
}

void Progress::advance(std::string_view about) {
  const std::lock_guard lock{mutex_};
  ++done_;
  about_ = about;
  show();
}

void Progress::step() {
  const std::lock_guard lock{mutex_};
  ++steps_;
  show();
}

}  // namespace millrace::cli
