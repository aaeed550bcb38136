#include "exports/refuse.hpp"

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "engine/thread.hpp"

namespace millrace::virtual_cuda {
namespace {

void say_once(const char* function, const char* verdict, const char* why, const char* result) {
  static auto* const mutex = new std::mutex;
  static auto* const named = new std::set<std::string>;
  const std::lock_guard lock{*mutex};
  if (named->insert(function).second)
    std::fprintf(stderr, "millrace virtual CUDA: %s %s (%s)%s\n", function, verdict, why, result);
}

}  // namespace

cudaError_t refuse(const char* function, const char* what) noexcept {
  if (this_thread != nullptr) this_thread->last_error = cudaErrorNotSupported;
  say_once(function, "is not supported", what, ": cudaErrorNotSupported");
  return cudaErrorNotSupported;
}

void name_lacking(const char* function, const char* why) noexcept {
  say_once(function, "is not known", why, "");
}

}  // namespace millrace::virtual_cuda
