#include "check/annotations.hpp"

#include "check/checker.hpp"
#include "engine/runtime.hpp"

namespace millrace::virtual_cuda::annotations {
namespace {

/** Whether the program is checked and CUDA answers this thread. */
bool checked() {
  return checker() != nullptr && (this_thread != nullptr || attach_thread() != nullptr) &&
         process_refusal.load(std::memory_order_relaxed) == cudaSuccess;
}

template <typename Use>
void with_checker(Use use) {
  if (!checked()) return;
  const Lock lock{runtime().engine.mutex()};
  use(*checker());
}

std::uint64_t number(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

}  // namespace

void host_access(const void* address, std::size_t bytes, int writes) {
  with_checker([&](Checker& check) { check.host_access({address, bytes, writes != 0}); });
}

void allocated(const void* address, std::size_t bytes, CUstream_st* stream) {
  if (!checked()) return;
  CUstream_st* found = nullptr;
  if (stream != MILLRACE_NO_STREAM) {
    found = find_stream(stream, Default::legacy);
    if (found == nullptr) return;
  }
  with_checker([&](Checker& check) { check.sub_allocated(address, bytes, found); });
}

void freed(const void* address) {
  with_checker([&](Checker& check) { check.sub_freed(address); });
}

void release(const void* object) {
  with_checker([&](Checker& check) { check.released(number(object)); });
}

void acquire(const void* object) {
  with_checker([&](Checker& check) { check.acquired(number(object)); });
}

void heap(const void* address, std::size_t bytes) {
  with_checker([&](Checker& check) { check.add_heap(address, bytes); });
}

void heap_reset(const void* address) {
  with_checker([&](Checker& check) { check.reset_heap(address); });
}

void region(const void* address, std::size_t bytes) {
  with_checker([&](Checker& check) { check.region(address, bytes); });
}

bool wanted() {
  if (this_thread == nullptr && attach_thread() == nullptr) return false;
  return checker() != nullptr;
}

std::size_t races(void (*visit)(const MillraceRace*, void*), void* data) {
  std::size_t found = 0;
  with_checker([&](Checker& check) {
    found = static_cast<std::size_t>(check.log().found());
    if (visit == nullptr) return;
    for (const RaceLog::Entry& entry : check.log().named()) {
      const MillraceRace race{entry.kind.c_str(), entry.message.c_str()};
      visit(&race, data);
    }
  });
  return found;
}

}  // namespace millrace::virtual_cuda::annotations
