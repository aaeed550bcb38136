#pragma once

#include <cstddef>
#include <exception>
#include <mutex>
#include <vector>

#include "memory/graph/graph_memory.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace {

/**
 * @brief A private pool's segments: memory of the general allocator, held until nothing captured
 *        can use it any more.
 *
 * What the pool's allocator gives back before that is parked, and serves its next requests.
 */
class PoolSource final : public SegmentSource {
 public:
  PoolSource(GraphMemory& memory, StreamRef pool) : memory_(memory), pool_(pool) {}

  void* acquire(std::size_t bytes) override;
  void release(void* base, std::size_t bytes) override;
  [[nodiscard]] std::size_t granularity() const override { return kGranularity; }

  /** @brief For requests that follow. */
  void set_effort(GraphMemory::Effort effort);
  /** @brief A request of `bytes` would fail: the next one of them does all that can be done. */
  void press(std::size_t bytes);
  /** @brief Why that failed, if it did; the effort is as before. */
  [[nodiscard]] std::exception_ptr relax();

  /** @brief What comes back from now on is given back, to be used after `points`. */
  void give_back_after(const PointSet& points);
  /** @brief What comes back is parked again. */
  void keep();
  /** @brief Gives a segment back that is parked. @return whether it was */
  bool give_back_parked(void* base);

  /** @brief What was acquired since the last call, in order. */
  [[nodiscard]] std::vector<void*> acquired();
  [[nodiscard]] std::vector<void*> parked() const;
  [[nodiscard]] std::size_t bytes() const;

 private:
  static constexpr std::size_t kGranularity = std::size_t{2} << 20;

  struct Segment {
    void* base;
    std::size_t bytes;
    bool parked;
  };

  void* unpark(std::size_t bytes);

  GraphMemory& memory_;
  const StreamRef pool_;
  mutable std::mutex mutex_;  // of everything below
  std::vector<Segment> segments_;
  std::vector<void*> acquired_;
  GraphMemory::Effort effort_ = GraphMemory::Effort::ask;
  std::size_t pressed_ = 0;  // bytes; 0: not
  std::exception_ptr failure_;
  bool gives_back_ = false;
  PointSet points_;
};

}  // namespace millrace
