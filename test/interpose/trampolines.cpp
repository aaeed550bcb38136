#include "runtime/trampolines.hpp"

#include <dlfcn.h>

#include "test/support/catch.hpp"

extern "C" int __wrap_cudaGetDriverEntryPointByVersion(const char* name, void** entry,
                                                       unsigned version, unsigned long long flags,
                                                       void* found);

TEST_CASE("a runtime without cudaGetDriverEntryPointByVersion serves by the older function") {
  void* const runtime = dlopen(MILLRACE_OLD_RUNTIME, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(runtime != nullptr);
  REQUIRE(dlsym(runtime, "cudaGetDriverEntryPointByVersion") == nullptr);
  REQUIRE(millrace::interpose::fill_trampolines(runtime));
  const char* const name = "cuMemCreate";
  void* entry = nullptr;
  unsigned long long found = 0;
  CHECK(__wrap_cudaGetDriverEntryPointByVersion(name, &entry, 12020, 7, &found) == 3);
  CHECK(entry == name);
  CHECK(found == 7);
}
