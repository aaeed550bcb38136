#pragma once

#include <cstddef>
#include <string>

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/**
 * @brief How a program's plain calls of CUDA are served from a DeviceMemory.
 *
 * Memory of cudaMallocAsync belongs to the stream that it was asked for, and a free is ordered on
 * the stream that the free names. Memory of cudaMalloc may be used on all streams at once: it has
 * an owner that is no stream of the driver's, and that comes after completed work only.
 */
class ProgramMemory {
 public:
  /** @param memory  outlives this object */
  explicit ProgramMemory(DeviceMemory& memory)
      : memory_(memory),
        all_(memory.device().open_nominal("cudaMalloc")),
        freed_(memory.device().open_nominal("cudaFree")) {}

  /** @brief Memory that every stream may use from now on. @throws as Allocator::allocate */
  [[nodiscard]] void* allocate_for_all(std::size_t bytes) {
    return memory_.caching().allocate(bytes, all_);
  }
  /** @brief Memory for `stream`. @throws as Allocator::allocate */
  [[nodiscard]] void* allocate(std::size_t bytes, StreamHandle stream) {
    return static_cast<Allocator&>(memory_).allocate(bytes, StreamRef{stream});
  }

  /**
   * @brief Frees a block whose uses are complete.
   *
   * The free has the order of a stream on which nothing else is ever ordered, so that all points of
   * it may be declared complete: each was made after a synchronization.
   * @param synchronize  called as synchronize(stream): OrderedDevice::synchronize of that stream,
   *                     for which the driver has nothing to do
   */
  template <typename Synchronize>
  void free_completed(void* address, Synchronize synchronize) {
    memory_.caching().deallocate(address, freed_);
    synchronize(freed_);
  }

  /** @brief Frees a block in the order of `stream`. @throws DeviceError */
  void free(void* address, StreamHandle stream) {
    const StreamRef named = memory_.device().resolve(StreamRef{stream});
    // By the handle: the allocator tells a stream that has the handle of a block's former owner.
    if (!is_for_all(address)) return memory_.deallocate(address, StreamRef{stream});
    memory_.caching().deallocate(address, named);
    try {
      // So that a poll finds the free complete, whatever the program does next.
      memory_.device().mark(named);
    } catch (const DeviceError&) {
    }
  }

  /** @brief The free bytes that every stream could have now, and those that could not. */
  [[nodiscard]] UsableBytes usable_by_all() { return memory_.caching().usable(all_); }

 private:
  [[nodiscard]] bool is_for_all(const void* address) {
    const auto owner = memory_.caching().owner(address);
    return owner && owner->id() == all_.id();
  }

  DeviceMemory& memory_;
  const StreamRef all_;    // the owner of what cudaMalloc gave
  const StreamRef freed_;  // on which complete blocks are freed
};

}  // namespace millrace
