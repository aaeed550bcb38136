#include "test/tools/terminal.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "test/support/catch.hpp"

namespace millrace::test {

Terminal::Terminal() : descriptor_(::posix_openpt(O_RDWR | O_NOCTTY)) {
  if (descriptor_ < 0 || ::grantpt(descriptor_) != 0 || ::unlockpt(descriptor_) != 0) {
    SKIP("no terminal can be opened here");
  }
}

Terminal::~Terminal() { ::close(descriptor_); }

std::string Terminal::name() const { return ::ptsname(descriptor_); }

void Terminal::resize(unsigned short columns) const {
  const struct winsize size { .ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0 };
  REQUIRE(::ioctl(descriptor_, TIOCSWINSZ, &size) == 0);
}

std::string Terminal::read_until(const std::string& text) {
  std::string seen;
  char letter = 0;
  while (!seen.ends_with(text) && ::read(descriptor_, &letter, 1) == 1) seen += letter;
  return seen;
}

}  // namespace millrace::test
