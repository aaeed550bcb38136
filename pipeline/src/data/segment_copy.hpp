#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/pipeline/data/jagged_operations.hpp"

namespace millrace {

/** @brief Bytes that are copied from one tensor to another. Offsets and sizes are multiples of 4.
 */
struct CopiedBytes {
  std::size_t source = 0;  ///< index of the source tensor
  std::size_t from = 0;    ///< first byte in the source
  std::size_t target = 0;
  std::size_t to = 0;
  std::size_t bytes = 0;
};

/** @brief Copies any number of segments between tensors in one operation. */
struct SegmentCopy {
  std::string name;
  std::vector<BatchTensor> sources, targets;
  std::vector<CopiedBytes> segments;  ///< must not overlap in the targets

  /** @brief Enqueues the copy; does nothing if no segment has bytes. */
  void launch(const JaggedScope& scope) &&;
};

}  // namespace millrace
