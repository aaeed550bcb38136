#pragma once

#include <cstddef>
#include <memory>

namespace millrace {

/**
 * @brief Reports memory to tools by NVTX's memory API. A segment is a heap. An allocation is a
 *        region of it that the program may use.
 *
 * Does nothing if no tool is attached (compute-sanitizer, the checker of the virtual CUDA runtime),
 * and in a build without NVTX's headers. Thread-safe.
 */
class ToolNotes {
 public:
  ToolNotes();
  ~ToolNotes();
  ToolNotes(const ToolNotes&) = delete;
  ToolNotes& operator=(const ToolNotes&) = delete;

  void heap_added(void* base, std::size_t bytes);
  void heap_removed(void* base);
  /** @brief Reports that the program may use the bytes from now on. */
  void handed_out(void* address, std::size_t bytes);
  /** @brief Reports bytes that a graph may use at each launch. They stay a region after their free,
   * until the memory serves a request from outside the graph. */
  void handed_to_graph(void* address, std::size_t bytes);
  /** @brief Notes that a graph may use a region at each launch, also after its free. */
  void kept_by_graph(void* address, std::size_t bytes);
  [[nodiscard]] bool is_kept_by_graph(void* address);
  /** @brief Reports that later work must not use the region at `address`. */
  void taken_back(void* address) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
