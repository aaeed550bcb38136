#pragma once

#include "interop/tool_notes.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/forwarding_allocator.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace {

/** @brief Segments of the device that tools know. Not in growable ranges: one heap each. */
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

/** @brief An allocator in front of another one, for programs that look for errors in their use of
 *         memory: it tells tools, and fills what it hands out. */
class DebuggedMemory final : public ForwardingAllocator {
 public:
  /** What poisoned memory holds: as float or double, a NaN. */
  static constexpr unsigned char kPoison = 0xff;

  /**
   * @param caching  knows the sizes of blocks
   * @param inner    serves every call: `caching`, or what forwards to it
   * @param notes    nullptr: no tool is told
   * @param poisons  fills each allocation, in the order of the stream that uses it first; not in a
   *                 capture, and not in a host callback
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
