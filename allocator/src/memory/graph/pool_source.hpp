#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "memory/graph/graph_memory.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace {

/**
 * @brief The segments of a private pool: memory of the general allocator, which the pool keeps
 *        until no captured work can use it.
 *
 * A segment that the pool's allocator releases earlier is parked: it serves later requests of the
 * pool.
 */
class PoolSource final : public SegmentSource {
 public:
  PoolSource(GraphMemory& memory, StreamRef pool) : memory_(memory), pool_(pool) {}

  void* acquire(std::size_t bytes) override;
  void release(void* base, std::size_t bytes) override;
  [[nodiscard]] std::size_t granularity() const override { return kGranularity; }

  /** @brief Sets how hard `acquire` searches for memory from now on. */
  void set_effort(GraphMemory::Effort effort);
  /**
   * @brief Adds a parked segment of `bytes` bytes, with GraphMemory::Effort::pressed.
   * @throws out_of_memory of the general allocator
   */
  void add(std::size_t bytes);

  /**
   * @brief Gives segments back to the general allocator while it exists. Only one object exists at
   *        a time.
   */
  class GivingBack {
   public:
    /** @param points  what must come before the next use of these segments */
    GivingBack(PoolSource& source, const PointSet& points);
    ~GivingBack();
    GivingBack(const GivingBack&) = delete;
    GivingBack& operator=(const GivingBack&) = delete;

    /**
     * @brief Gives the segment back: at once if it is parked, otherwise when it is released while
     *        this object exists.
     */
    void release(void* base);

   private:
    PoolSource& source_;
  };

  /** @brief Returns the addresses of all segments. */
  [[nodiscard]] std::vector<void*> segments() const;
  /** @brief Returns the addresses of the segments acquired since the last call, in order. */
  [[nodiscard]] std::vector<void*> acquired();
  /** @brief Returns the bytes of all segments. */
  [[nodiscard]] std::size_t bytes() const;

 private:
  static constexpr std::size_t kGranularity = std::size_t{2} << 20;

  struct Segment {
    void* base;
    std::size_t bytes;
    bool parked;
    bool is_new = true;    // acquired since the last call of `acquired`
    bool leaving = false;  // given back when it is released
  };

  void* unpark(std::size_t bytes);
  [[nodiscard]] Segment* find(const void* base);
  void hold(const Segment& segment);
  PointSet take_out(const Segment* segment);

  GraphMemory& memory_;
  const StreamRef pool_;
  mutable std::mutex mutex_;  // guards everything below
  std::vector<Segment> segments_;
  GraphMemory::Effort effort_ = GraphMemory::Effort::ask;
  PointSet after_;  // what must come before the next use of segments that are given back
};

}  // namespace millrace
