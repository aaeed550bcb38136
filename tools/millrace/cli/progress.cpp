#include "cli/progress.hpp"

#include <fmt/format.h>

namespace millrace::cli {

void Progress::advance(std::string_view about) {
  const std::lock_guard lock{mutex_};
  ++done_;
  if (line_.due()) {
    line_.show(
        fmt::format("{}: {} of {}, {:.0f} s  {}", what_, done_, all_, line_.seconds(), about));
  }
}

}  // namespace millrace::cli
