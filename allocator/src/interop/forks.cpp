#include "interop/forks.hpp"

#include <pthread.h>

#include <atomic>

namespace millrace {
namespace {

std::atomic<std::uint32_t> count{0};  // initialized before any constructor runs

}  // namespace

std::uint32_t forks() noexcept {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return count.load(std::memory_order_relaxed);
}

}  // namespace millrace
