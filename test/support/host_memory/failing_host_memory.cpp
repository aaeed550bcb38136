#include "test/support/host_memory/failing_host_memory.hpp"

#include <cstdlib>
#include <new>
#include <utility>

namespace millrace::test {
namespace {

thread_local std::uint64_t left = 0;  // allocations up to the next failure; 0: none fails
thread_local std::uint64_t more = 0;  // consecutive failures from then on
thread_local bool struck = false;

}  // namespace

FailingHostMemory::FailingHostMemory(std::uint64_t number, std::uint64_t failures) noexcept {
  left = number;
  more = failures;
  struck = false;
}
FailingHostMemory::~FailingHostMemory() { left = 0; }
bool FailingHostMemory::failed() noexcept { return struck; }

FailingHostMemory::Paused::Paused() noexcept : left_(std::exchange(left, 0)) {}
FailingHostMemory::Paused::~Paused() { left = left_; }

namespace {

void* allocate(std::size_t bytes) {
  if (left != 0 && --left == 0) {
    struck = true;
    left = --more > 0 ? 1 : 0;
    throw std::bad_alloc{};
  }
  if (void* const address = std::malloc(bytes == 0 ? 1 : bytes)) return address;
  throw std::bad_alloc{};
}

}  // namespace
}  // namespace millrace::test

// Replaces all forms in the whole program, because a sanitizer adds its own version of a missing
// one. Aligned memory never fails: libstdc++ 12's std::pmr::unsynchronized_pool_resource, which
// takes it, crashes at an allocation after one that failed.
void* operator new(std::size_t bytes) { return millrace::test::allocate(bytes); }
void* operator new[](std::size_t bytes) { return millrace::test::allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes);
}
void operator delete(void* address) noexcept { std::free(address); }
void operator delete[](void* address) noexcept { std::free(address); }
void operator delete(void* address, std::size_t) noexcept { std::free(address); }
void operator delete[](void* address, std::size_t) noexcept { std::free(address); }
void operator delete(void* address, const std::nothrow_t&) noexcept { std::free(address); }
void operator delete[](void* address, const std::nothrow_t&) noexcept { std::free(address); }
