// The functions of cuBLAS that are lacking, generated from the table. A function of C may be called
// with more arguments than it takes: none of these looks at them. Every one returns a status, a
// number, or nothing; functions that return a pointer or a size may not be refused. The build
// defines MILLRACE_CUBLAS_TABLE.

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
