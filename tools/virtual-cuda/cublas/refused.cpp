// Makes the missing functions of cuBLAS from the table. They take no arguments: a C function may be
// called with more arguments than it takes. A missing function returns a status, a number or
// nothing. So functions that return a pointer or a size must not be missing. The build defines
// MILLRACE_CUBLAS_TABLE.

#include "cublas/turn.hpp"

#define MILLRACE_ROW_real(name)
#define MILLRACE_ROW_approximate(name)
#define MILLRACE_ROW_refused(name)                             \
  MILLRACE_EXPORT ::millrace::virtual_cublas::Refusal name() { \
    return ::millrace::virtual_cublas::refuse(#name);          \
  }
#define MILLRACE_CUBLAS(name, capability) MILLRACE_ROW_##capability(name)
#include MILLRACE_CUBLAS_TABLE
#undef MILLRACE_CUBLAS
