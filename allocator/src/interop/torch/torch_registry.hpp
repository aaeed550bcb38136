#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "millrace/interop/torch_memory.hpp"

namespace millrace::torch {

/** @brief The TorchMemory objects of the process. In a forked child it is empty. Thread-safe. */
class Registry {
 public:
  void add(TorchMemory& memory);
  void remove(TorchMemory& memory);
  [[nodiscard]] std::vector<TorchMemory*> all();
  [[nodiscard]] TorchMemory* find(const std::function<bool(const TorchMemory&)>& is_it);
  /** @brief Returns the object of the GPU's default memory; otherwise the one kept for the GPU. */
  [[nodiscard]] TorchMemory* find(int device_id);
  /** @brief Keeps `memory` for its GPU unless one was kept before. @return the kept one */
  TorchMemory* keep(int device_id, TorchMemory& memory);

 private:
  std::mutex mutex_;
  std::vector<TorchMemory*> all_;
  std::map<int, TorchMemory*> kept_;
};

[[nodiscard]] Registry& registry();

/** @brief Returns whether this process was forked from one that has used the registry. */
[[nodiscard]] bool registry_is_of_parent() noexcept;

}  // namespace millrace::torch
