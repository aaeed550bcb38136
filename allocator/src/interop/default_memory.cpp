#include "interop/default_memory.hpp"

#include <atomic>
#include <map>
#include <mutex>

#include "interop/forks.hpp"

namespace millrace {
namespace {

thread_local DefaultMemoryScope* innermost = nullptr;

/** Never destroyed: memory is freed until the last instruction of the process. */
struct Defaults {
  const std::uint32_t forks_before = forks();
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::map<int, std::unique_ptr<DeviceMemory>> memories;
};

std::atomic<Defaults*> of_process{nullptr};

// A forked child gets its own, because a thread that does not exist here may hold the parent's
// lock.
Defaults& defaults() {
  Defaults* known = of_process.load(std::memory_order_acquire);
  while (known == nullptr || known->forks_before != forks()) {
    if (default_memory_is_of_parent()) {
      throw DeviceError{ErrorCode::device_lost, "default_memory",
                        "this process was forked from one that uses CUDA; CUDA works again in a "
                        "program that exec starts"};
    }
    auto made = std::make_unique<Defaults>();
    if (of_process.compare_exchange_strong(known, made.get())) return *made.release();
  }
  return *known;
}

}  // namespace

DefaultMemoryScope::DefaultMemoryScope(DeviceMemory& memory) noexcept
    : memory_(memory), outer_(innermost) {
  innermost = this;
}

DefaultMemoryScope::~DefaultMemoryScope() { innermost = outer_; }

bool default_memory_is_of_parent() noexcept {
  const Defaults* const known = of_process.load(std::memory_order_acquire);
  return known != nullptr && known->forks_before != forks() &&
         known->any.load(std::memory_order_relaxed);
}

DeviceMemory* find_default_memory(int device_id) {
  for (DefaultMemoryScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    if (scope->memory_.device_id() == device_id) return &scope->memory_;
  }
  Defaults& all = defaults();
  const std::lock_guard lock{all.mutex};
  const auto known = all.memories.find(device_id);
  return known == all.memories.end() ? nullptr : known->second.get();
}

std::vector<DeviceMemory*> default_memories() {
  std::vector<DeviceMemory*> found;
  for (DefaultMemoryScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    found.push_back(&scope->memory_);
  }
  Defaults& all = defaults();
  const std::lock_guard lock{all.mutex};
  for (const auto& [device_id, memory] : all.memories) {
    if (memory != nullptr) found.push_back(memory.get());
  }
  return found;
}

bool adopt_default_memory(std::unique_ptr<DeviceMemory>& memory) {
  Defaults& all = defaults();
  const std::lock_guard lock{all.mutex};
  std::unique_ptr<DeviceMemory>& there = all.memories[memory->device_id()];
  if (there != nullptr) return false;
  there = std::move(memory);
  all.any = true;
  return true;
}

DeviceMemory& default_memory(int device_id) {
  if (DeviceMemory* const known = find_default_memory(device_id)) return *known;
  auto made = std::make_unique<DeviceMemory>(device_id);
  Defaults& all = defaults();
  const std::lock_guard lock{all.mutex};
  std::unique_ptr<DeviceMemory>& memory = all.memories[device_id];
  if (memory == nullptr) memory = std::move(made);  // otherwise another thread was faster
  all.any = true;
  return *memory;
}

}  // namespace millrace
