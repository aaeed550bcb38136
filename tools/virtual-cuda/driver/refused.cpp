// Exports for the rows of table/driver.def that are `refused` or `no_op`. The functions take no
// arguments: a C function may be called with more arguments than it takes.

#include "driver/entry.hpp"
#include "exports/refuse.hpp"

#define MILLRACE_REFUSED(row, name, note)                                                      \
  MILLRACE_EXPORT CUresult name() {                                                            \
    return ::millrace::virtual_cuda::driver_call<::millrace::virtual_cuda::Need::anytime>(     \
        ::millrace::virtual_cuda::DriverFunction::row, [](::millrace::virtual_cuda::Thread&) { \
          return ::millrace::virtual_cuda::refuse(#name, note);                                \
        });                                                                                    \
  }
#define MILLRACE_NO_OP(row, name)                                                         \
  MILLRACE_EXPORT CUresult name() {                                                       \
    return ::millrace::virtual_cuda::driver_call<::millrace::virtual_cuda::Need::driver>( \
        ::millrace::virtual_cuda::DriverFunction::row,                                    \
        [](::millrace::virtual_cuda::Thread&) { return cudaSuccess; });                   \
  }

#define MILLRACE_ROW_real_none(name, note)
#define MILLRACE_ROW_real_ptsz(name, note)
#define MILLRACE_ROW_real_ptds(name, note)
#define MILLRACE_ROW_approximate_none(name, note)
#define MILLRACE_ROW_approximate_ptsz(name, note)
#define MILLRACE_ROW_approximate_ptds(name, note)
#define MILLRACE_ROW_no_op_none(name, note) MILLRACE_NO_OP(name, name)
#define MILLRACE_ROW_refused_none(name, note) MILLRACE_REFUSED(name, name, note)
#define MILLRACE_ROW_refused_ptsz(name, note) \
  MILLRACE_REFUSED(name, name, note) MILLRACE_REFUSED(name, name##_ptsz, note)
#define MILLRACE_ROW_refused_ptds(name, note) \
  MILLRACE_REFUSED(name, name, note) MILLRACE_REFUSED(name, name##_ptds, note)

#define MILLRACE_DRIVER(symbol, base, since, twin, capability, note) \
  MILLRACE_ROW_##capability##_##twin(symbol, note)
#include "table/driver.def"
#undef MILLRACE_DRIVER
