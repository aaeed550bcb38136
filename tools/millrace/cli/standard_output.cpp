#include "cli/standard_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "cli/error.hpp"

namespace millrace::cli {
namespace {

int first_error = 0;
bool pipes_end_it = false;  ///< false if the parent process ignores SIGPIPE

void note_error() {
  if (first_error == 0) first_error = errno != 0 ? errno : EIO;
  if (first_error != EPIPE || !pipes_end_it) return;
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

void flush() {
  errno = 0;
  if (std::fflush(stdout) != 0) note_error();
}

}  // namespace

void prepare_standard_streams() {
  pipes_end_it = std::signal(SIGPIPE, SIG_IGN) == SIG_DFL;
  // open() returns the lowest free number, which is the closed one. The access modes are swapped on
  // purpose, so that every read or write still fails.
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    static_cast<void>(::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

void print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) note_error();
  flush();
}

void finish_standard_output() {
  flush();
  if (first_error == 0 && std::ferror(stdout) == 0) return;
  throw UsageError{fmt::format("standard output cannot be written: {}",
                               first_error != 0 ? std::strerror(first_error) : "an error"),
                   "", "a disk with room, or a reader that does not close its end"};
}

}  // namespace millrace::cli
