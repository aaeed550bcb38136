#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "memory/graph/graph_memory.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace {

/**
 * @brief The segments of a private pool: memory of the general allocator, which the pool holds
 *        until nothing captured can use it.
 *
 * A segment that the pool's allocator releases before that is parked, and serves its next requests.
 */
class PoolSource final : public SegmentSource {
 public:
  PoolSource(GraphMemory& memory, StreamRef pool) : memory_(memory), pool_(pool) {}

  void* acquire(std::size_t bytes) override;
  void release(void* base, std::size_t bytes) override;
  [[nodiscard]] std::size_t granularity() const override { return kGranularity; }

  /** @brief How hard `acquire` looks for memory from now on. */
  void set_effort(GraphMemory::Effort effort);
  /**
   * @brief Adds a parked segment of this size: does all that can be done to get it.
   * @throws out_of_memory, of the general allocator
   */
  void add(std::size_t bytes);

  /** @brief Gives segments back to the general allocator, while it lives. One at a time. */
  class GivingBack {
   public:
    /** @param points  what must come before the next use of these segments */
    GivingBack(PoolSource& source, const PointSet& points);
    ~GivingBack();
    GivingBack(const GivingBack&) = delete;
    GivingBack& operator=(const GivingBack&) = delete;

    /** @brief Gives the segment back: now if it is parked, else if it is released meanwhile. */
    void let_go(void* base);

   private:
    PoolSource& source_;
  };

  /** @brief The segments that are held. */
  [[nodiscard]] std::vector<void*> segments() const;
  /** @brief The segments acquired since the last call, in order. */
  [[nodiscard]] std::vector<void*> acquired();
  [[nodiscard]] std::size_t bytes() const;

 private:
  static constexpr std::size_t kGranularity = std::size_t{2} << 20;

  struct Segment {
    void* base;
    std::size_t bytes;
    bool parked;
    bool is_new = true;    // since the last call of `acquired`
    bool leaving = false;  // it is given back when it is released
  };

  void* unpark(std::size_t bytes);
  [[nodiscard]] Segment* find(const void* base);
  void hold(const Segment& segment);
  PointSet take_out(const Segment* segment);

  GraphMemory& memory_;
  const StreamRef pool_;
  mutable std::mutex mutex_;  // of everything below
  std::vector<Segment> segments_;
  GraphMemory::Effort effort_ = GraphMemory::Effort::ask;
  PointSet after_;  // what is given back is used after these
};

}  // namespace millrace
