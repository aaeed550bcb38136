#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/operation.hpp"
#include "memory/memory.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief The memory of allocation nodes. A launch allocates it. A free node, cudaFreeAsync or
 *        cudaFree frees it, even after its graph was destroyed. Guarded by the engine's lock.
 *
 * When its last graph is destroyed, free memory returns to the GPU at once. Other memory returns
 * with the first `trim` after its free.
 */
class GraphMemory {
 public:
  struct Amount {
    std::uint64_t current = 0;
    std::uint64_t high = 0;
  };

  GraphMemory(Memory& memory, unsigned gpus) : memory_{memory}, amounts_(gpus) {}

  /** @brief Takes memory for a new node. Null if the GPU has no room. */
  [[nodiscard]] void* take(unsigned gpu, std::size_t bytes);
  [[nodiscard]] bool holds(const void* address) const { return blocks_.contains(address); }
  [[nodiscard]] bool allocated(const void* address) const;
  /** @brief A launch allocates the memory. */
  void allocate(void* address);
  /** @brief Frees memory, effective when `after` is done. @return false if it is not `allocated` */
  bool release(void* address, const OperationRef& after);
  /** @brief The last graph that uses the memory was destroyed. */
  void abandon(void* address);
  /** @brief Returns memory that is free and belongs to no graph. */
  void trim(unsigned gpu);

  [[nodiscard]] Amount amount(unsigned gpu) const { return amounts_[gpu]; }
  void reset_high(unsigned gpu) { amounts_[gpu].high = amounts_[gpu].current; }

 private:
  struct Block {
    unsigned gpu = 0;
    std::size_t bytes = 0;
    bool of_a_graph = true;
    bool allocated = false;
    OperationRef after;  ///< the operation that frees it; may be null
  };
  [[nodiscard]] static bool unused(const Block& block);
  void give(std::map<const void*, Block>::iterator block);

  Memory& memory_;
  std::vector<Amount> amounts_;
  std::map<const void*, Block> blocks_;
};

}  // namespace millrace::virtual_cuda
