#include "exports/refuse.hpp"

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "engine/thread.hpp"

namespace millrace::virtual_cuda {

cudaError_t refuse(const char* function, const char* what) noexcept {
  static auto* const mutex = new std::mutex;
  static auto* const named = new std::set<std::string>;
  if (this_thread != nullptr) this_thread->last_error = cudaErrorNotSupported;
  const std::lock_guard lock{*mutex};
  if (named->insert(function).second)
    std::fprintf(stderr, "millrace virtual CUDA: %s is not supported (%s): cudaErrorNotSupported\n",
                 function, what);
  return cudaErrorNotSupported;
}

}  // namespace millrace::virtual_cuda
