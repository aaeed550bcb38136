// The allocator in this library calls functions such as cudaMalloc, and this library exports
// functions of the same names. The linker (--wrap) turns each such call into a call of __wrap_NAME.
// These functions are here: jumps to the runtime's functions. All parameters stay in place, so no
// declaration is needed.

#include "runtime/trampolines.hpp"

#include <dlfcn.h>

#if defined(__x86_64__)
#define MILLRACE_JUMP(name) "jmp *millrace_real_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define MILLRACE_JUMP(name)                   \
  "adrp x16, millrace_real_" #name            \
  "\n"                                        \
  "ldr x16, [x16, :lo12:millrace_real_" #name \
  "]\n"                                       \
  "br x16\n"
#else
#error "no trampolines for this processor"
#endif

#define MILLRACE_ALLOCATOR(name)                                                      \
  extern "C" {                                                                        \
  __attribute__((visibility("hidden"), used)) void* millrace_real_##name = nullptr;   \
  }                                                                                   \
  asm(".text\n.globl __wrap_" #name "\n.hidden __wrap_" #name "\n.type __wrap_" #name \
      ", %function\n__wrap_" #name ":\n" MILLRACE_JUMP(name));
#include "runtime/allocator.def"
#undef MILLRACE_ALLOCATOR

namespace millrace::interpose {
namespace {

// Serves Millrace's calls of cudaGetDriverEntryPointByVersion in a runtime that lacks it (before
// CUDA 12.5). The older function finds the newest version of a driver function that the runtime
// knows.
int entry_point(const char* name, void** entry, unsigned /*version*/, unsigned long long flags,
                void* found) {
  using Find = int (*)(const char*, void**, unsigned long long, void*);
  return reinterpret_cast<Find>(millrace_real_cudaGetDriverEntryPoint)(name, entry, flags, found);
}

}  // namespace

bool fill_trampolines(void* library) noexcept {
#define MILLRACE_ALLOCATOR(name) millrace_real_##name = dlsym(library, #name);
#include "runtime/allocator.def"
#undef MILLRACE_ALLOCATOR
  if (millrace_real_cudaGetDriverEntryPointByVersion == nullptr) {
    millrace_real_cudaGetDriverEntryPointByVersion = reinterpret_cast<void*>(&entry_point);
  }
  bool all = true;
#define MILLRACE_ALLOCATOR(name) all = all && millrace_real_##name != nullptr;
#include "runtime/allocator.def"
#undef MILLRACE_ALLOCATOR
  return all;
}

}  // namespace millrace::interpose
