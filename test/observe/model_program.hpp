#pragma once

#include <rapidcheck.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"

namespace millrace::test {

/** @brief One step of a random program. A number selects a stream or block modulo their count. */
struct ModelStep {
  enum Kind : std::uint8_t { allocate, first_user, free, free_used, mark, wait, complete, trim };
  Kind kind;
  std::uint8_t stream, other;
  std::uint16_t size;
};

std::ostream& operator<<(std::ostream& out, const ModelStep& step);

/** @brief Generates programs that mostly allocate and free. */
rc::Gen<std::vector<ModelStep>> model_program();

/**
 * @brief Runs a program against the simplest allocator that keeps the one rule. Stores with each
 *        allocation plain copies of the data that the definition of a conflict needs.
 */
class ModelRun {
 public:
  struct Options {
    std::size_t streams = 3;
    bool obeys = true;  ///< false: any stream may get any freed block
  };

  explicit ModelRun(const std::vector<ModelStep>& program) : ModelRun(program, Options{}) {}
  ModelRun(const std::vector<ModelStep>& program, Options options);

  AllocationTrace trace;

  /** @brief Returns whether two allocations (numbered from 0) conflict, literally by definition. */
  [[nodiscard]] bool conflict(std::size_t a, std::size_t b) const;
  [[nodiscard]] bool share_memory(std::size_t a, std::size_t b) const;
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }
  [[nodiscard]] std::size_t bytes(std::size_t a) const { return blocks_[a].bytes; }

 private:
  struct Block {
    std::size_t segment, offset, bytes;
    StreamId user;
    std::size_t allocated, freed;  ///< step numbers
    std::vector<Point> points;
    Frontier user_frontier, completed;  ///< at the allocation
  };
  struct Segment {
    std::uintptr_t base;
    std::size_t bytes;
    bool held;
  };
  struct Stream {
    StreamId id;
    Marker next = 1;
    Frontier frontier;
    std::vector<Frontier> snapshots;  ///< of marker 1, 2, ...
  };

  void run(const ModelStep& step);
  void allocate(Stream& owner, Stream& user, std::size_t bytes);
  void free(std::size_t nth_live, std::vector<Stream*> used);
  [[nodiscard]] std::size_t grow(std::size_t bytes);
  void trim();
  [[nodiscard]] bool may_have(StreamId user, const Frontier& frontier, const Block& old) const;
  [[nodiscard]] bool fits(const Block& candidate) const;
  [[nodiscard]] bool place(Block& block);
  [[nodiscard]] std::uintptr_t address(const Block& block) const;

  Options options_;
  std::size_t now_ = 0;
  std::vector<Stream> streams_;
  Frontier completed_;
  std::vector<Segment> segments_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> live_;
};

}  // namespace millrace::test
