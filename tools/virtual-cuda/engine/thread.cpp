#include "engine/thread.hpp"

#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <string_view>

#include "check/checker.hpp"
#include "engine/runtime.hpp"

namespace millrace::virtual_cuda {

constinit thread_local Thread* this_thread = nullptr;
CodeRange code_of_millrace;
std::atomic<cudaError_t> process_refusal{cudaSuccess};

namespace {

/** The records of all threads. Never destroyed: threads may end after static destruction. */
struct Threads {
  std::mutex mutex;
  std::vector<Thread*> live;
  std::vector<std::uint64_t> ended_calls = std::vector<std::uint64_t>(2 * kAllFunctions);
  std::uint64_t ids = 0;
  pthread_key_t key{};
};

Threads& threads() {
  static auto* const all = new Threads;
  return *all;
}

void thread_ends(void* record) {
  auto* const thread = static_cast<Thread*>(record);
  this_thread = nullptr;
  release_per_thread_streams(*thread);
  if (Checker* const check = checker()) {
    const Lock lock{runtime().engine.mutex()};
    check->thread_ended(*thread);
  }
  Threads& all = threads();
  const std::lock_guard lock{all.mutex};
  for (std::size_t i = 0; i < 2 * kAllFunctions; ++i) all.ended_calls[i] += thread->calls[i];
  std::erase(all.live, thread);
  delete thread;
}

// A forked child lacks the runtime's threads, and one of them may have held the lock.
void in_forked_child() {
  this_thread = nullptr;
  process_refusal.store(cudaErrorInitializationError, std::memory_order_relaxed);
}

CodeRange find_millrace() noexcept {
  CodeRange found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        const std::string_view path{object->dlpi_name == nullptr ? "" : object->dlpi_name};
        if (!path.substr(path.rfind('/') + 1).starts_with("libmillrace")) return 0;
        for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
          const auto& part = object->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
          *static_cast<CodeRange*>(data) = {object->dlpi_addr + part.p_vaddr, part.p_memsz};
          return 1;
        }
        return 0;
      },
      &found);
  return found;
}

bool start_runtime() noexcept {
  static const bool started = [] {
    try {
      code_of_millrace = find_millrace();
      make_runtime();
      pthread_key_create(&threads().key, thread_ends);
      pthread_atfork(nullptr, nullptr, in_forked_child);
      return true;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "millrace virtual CUDA: %s\n", error.what());
      process_refusal.store(cudaErrorInitializationError, std::memory_order_relaxed);
      return false;
    }
  }();
  return started;
}

}  // namespace

Thread* attach_thread() noexcept {
  if (process_refusal.load(std::memory_order_relaxed) != cudaSuccess || !start_runtime())
    return nullptr;
  auto* const thread = new (std::nothrow) Thread;
  if (thread == nullptr) return nullptr;
  Threads& all = threads();
  {
    const std::lock_guard lock{all.mutex};
    thread->id = ++all.ids;
    all.live.push_back(thread);
  }
  pthread_setspecific(all.key, thread);
  return this_thread = thread;
}

InHostFunction::InHostFunction(std::uint32_t callback) noexcept {
  Thread* const thread = this_thread != nullptr ? this_thread : attach_thread();
  if (thread == nullptr) return;
  thread->refusal = cudaErrorNotPermitted;
  thread->callback = callback;
}

InHostFunction::~InHostFunction() {
  if (this_thread == nullptr) return;
  this_thread->refusal = cudaSuccess;
  this_thread->callback = Operation::kNoCallback;
}

std::vector<std::uint64_t> calls_of_all_threads() {
  Threads& all = threads();
  const std::lock_guard lock{all.mutex};
  std::vector<std::uint64_t> calls = all.ended_calls;
  for (const Thread* const thread : all.live)
    for (std::size_t i = 0; i < 2 * kAllFunctions; ++i) calls[i] += thread->calls[i];
  return calls;
}

}  // namespace millrace::virtual_cuda
