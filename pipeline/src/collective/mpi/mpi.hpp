#pragma once

// MPI's C++ bindings were removed from the standard, and need not be parsed.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <stdexcept>
#include <string>

namespace millrace::collective {

/** @throws std::runtime_error with MPI's message, unless `result` is MPI_SUCCESS */
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error{std::string{call} + ": " + text};
}

}  // namespace millrace::collective
