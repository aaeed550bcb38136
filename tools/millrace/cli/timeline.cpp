#include "cli/timeline.hpp"

#include <sstream>

namespace millrace::cli {

void write_timeline(const Timeline& timeline, const Output& output) {
  std::ostringstream text;
  timeline.write(text);
  output.write(text.view());
}

}  // namespace millrace::cli
