#pragma once

#include <cstddef>
#include <memory>

namespace millrace {

/**
 * @brief What tools are told of memory, by NVTX's memory API: segments are heaps, and allocations
 *        are the regions in them that a program may use.
 *
 * Does nothing unless a tool listens (compute-sanitizer, or the checker of the virtual CUDA
 * runtime), and in a build without NVTX's headers. Thread-safe.
 */
class ToolNotes {
 public:
  ToolNotes();
  ~ToolNotes();
  ToolNotes(const ToolNotes&) = delete;
  ToolNotes& operator=(const ToolNotes&) = delete;

  void heap_added(void* base, std::size_t bytes);
  void heap_removed(void* base);
  /** @brief The program may use the bytes from now on. */
  void handed_out(void* address, std::size_t bytes);
  /** @brief A graph may use the bytes at each launch: they stay a region after their free, until
   * the memory serves a request of others. */
  void handed_to_graph(void* address, std::size_t bytes);
  /** @brief A graph may use a region at each launch, also after its free. */
  void kept_by_graph(void* address, std::size_t bytes);
  [[nodiscard]] bool is_kept_by_graph(void* address);
  /** @brief Later work must not use them. */
  void taken_back(void* address) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
