#include "interop/torch/torch_registry.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "interop/default_memory.hpp"
#include "interop/forks.hpp"

namespace millrace::torch {
namespace {

/** Never destroyed: PyTorch frees until the last instruction of the process. */
struct OfProcess {
  const std::uint32_t forks_before = forks();
  Registry registry;
};

std::atomic<OfProcess*> registry_of_process{nullptr};

}  // namespace

void Registry::add(TorchMemory& memory) {
  const std::lock_guard lock{mutex_};
  all_.push_back(&memory);
}

void Registry::remove(TorchMemory& memory) {
  const std::lock_guard lock{mutex_};
  std::erase(all_, &memory);
  std::erase_if(kept_, [&](const auto& kept) { return kept.second == &memory; });
}

std::vector<TorchMemory*> Registry::all() {
  const std::lock_guard lock{mutex_};
  return all_;
}

TorchMemory* Registry::find(const std::function<bool(const TorchMemory&)>& is_it) {
  const std::lock_guard lock{mutex_};
  const auto found =
      std::ranges::find_if(all_, [&](const TorchMemory* each) { return is_it(*each); });
  return found == all_.end() ? nullptr : *found;
}

TorchMemory* Registry::find(int device_id) {
  const DeviceMemory* const usual = find_default_memory(device_id);
  const std::lock_guard lock{mutex_};
  for (TorchMemory* const each : all_) {
    if (&each->memory() == usual) return each;
  }
  const auto kept = kept_.find(device_id);
  return kept == kept_.end() ? nullptr : kept->second;
}

TorchMemory* Registry::keep(int device_id, TorchMemory& memory) {
  const std::lock_guard lock{mutex_};
  const auto [kept, is_new] = kept_.try_emplace(device_id, &memory);
  return is_new ? nullptr : kept->second;
}

bool registry_is_of_parent() noexcept {
  const OfProcess* const known = registry_of_process.load(std::memory_order_acquire);
  return known != nullptr && known->forks_before != forks();
}

// A forked child gets its own, because a thread that does not exist here may hold the parent's
// lock.
Registry& registry() {
  OfProcess* known = registry_of_process.load(std::memory_order_acquire);
  while (known == nullptr || known->forks_before != forks()) {
    auto made = std::make_unique<OfProcess>();
    if (registry_of_process.compare_exchange_strong(known, made.get())) {
      return made.release()->registry;
    }
  }
  return known->registry;
}

}  // namespace millrace::torch
