#pragma once

#include "interop/tool_notes.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/forwarding_allocator.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace {

/**
 * @brief Reports each segment of another source to tools, as a heap.
 *
 * It has no growable ranges, because a heap has one fixed size.
 */
class NotedSource final : public SegmentSource {
 public:
  NotedSource(SegmentSource& inner, ToolNotes& notes) : inner_(inner), notes_(notes) {}
  void* acquire(std::size_t bytes) override;
  void release(void* base, std::size_t bytes) override;
  [[nodiscard]] std::size_t granularity() const override { return inner_.granularity(); }

 private:
  SegmentSource& inner_;
  ToolNotes& notes_;
};

/** @brief Forwards to another allocator, reports allocations to tools, and fills new allocations
 *         with a pattern. It helps to find errors in a program's use of memory. */
class DebuggedMemory final : public ForwardingAllocator {
 public:
  /** The byte that poisoned memory is filled with. A float or double of these bytes is a NaN. */
  static constexpr unsigned char kPoison = 0xff;

  /**
   * @param caching  gives the sizes of blocks
   * @param inner    serves every call: `caching`, or an allocator that forwards to it
   * @param notes    nullptr: tools get no reports
   * @param poisons  whether each allocation is filled, in the order of its first user stream. A
   *                 captured stream and a host callback fill nothing.
   */
  DebuggedMemory(CachingAllocator& caching, Allocator& inner, ToolNotes* notes, bool poisons)
      : ForwardingAllocator(inner), caching_(caching), notes_(notes), poisons_(poisons) {}

  using Allocator::allocate;
  using Allocator::deallocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;

 private:
  [[nodiscard]] bool is_of_graph(const void* address) const;
  void note(void* address, std::size_t bytes);
  template <typename Free>
  void free(void* address, const Free& free);

  CachingAllocator& caching_;
  ToolNotes* const notes_;
  const bool poisons_;
};

}  // namespace millrace
