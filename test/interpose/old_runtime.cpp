// The names of a CUDA runtime before 12.5: all that Millrace's allocator calls, except
// cudaGetDriverEntryPointByVersion.

extern "C" int find_entry(const char* name, void** entry, unsigned long long flags,
                          void* found) asm("cudaGetDriverEntryPoint");

int find_entry(const char* name, void** entry, unsigned long long flags, void* found) {
  *entry = const_cast<char*>(name);
  *static_cast<unsigned long long*>(found) = flags;
  return 3;
}

#define cudaGetDriverEntryPoint millrace_unused_entry_point
#define cudaGetDriverEntryPointByVersion millrace_unused_entry_point_by_version
#define MILLRACE_ALLOCATOR(name) \
  extern "C" void name() {}
#include "runtime/allocator.def"
