#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/pipeline/data/jagged_operations.hpp"

namespace millrace {

/** @brief Bytes of one tensor that go to another. Multiples of 4, at multiples of 4. */
struct Segment {
  std::size_t source = 0;  ///< which
  std::size_t from = 0;    ///< byte of it
  std::size_t target = 0;
  std::size_t to = 0;
  std::size_t bytes = 0;
};

/** @brief Copies any number of segments between tensors in one operation. */
struct SegmentCopy {
  std::string name;
  std::vector<BatchTensor> sources, targets;
  std::vector<Segment> segments;  ///< those of the targets do not overlap

  /** @brief Enqueues it; nothing if there are no bytes. */
  void launch(const JaggedScope& scope) &&;
};

}  // namespace millrace
