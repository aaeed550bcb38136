#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

/// @file
/// For the programs that tests run: processes that they fork. Includes nothing of Millrace.

namespace forked {

/// What a child that does `body` ends with: its result, or `signaled` and a signal's number.
inline int exit_code_of_child(int (*body)(), int signaled = 128) {
  const pid_t child = fork();
  if (child == 0) std::exit(body());  // with destructors and the handlers of exit
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : signaled + WTERMSIG(status);
}

}  // namespace forked
