#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

/// @file
/// Forked processes, for the programs that tests run. Includes nothing of Millrace.

namespace forked {

/// Forks a child that runs `body`. Returns its exit code, or `signaled` plus the signal's number.
inline int exit_code_of_child(int (*body)(), int signaled = 128) {
  const pid_t child = fork();
  if (child == 0) std::exit(body());  // with destructors and the handlers of exit
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : signaled + WTERMSIG(status);
}

}  // namespace forked
