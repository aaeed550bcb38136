#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "capture/kernel_arguments.hpp"
#include "capture/layout.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/row_update.hpp"

namespace millrace::capture {

/** @brief A list of rows in device memory: ascending, without repeats. */
struct RowList {
  const void* rows = nullptr;  ///< [*count], of the source's id type
  const std::uint32_t* count = nullptr;
  std::size_t most = 0;
};

/**
 * @brief A bitmap on the device: one bit for each row of a source, or for 2^shift rows. A set bit
 *        means that the row must still be delivered.
 *
 * All operations are enqueued, and the caller orders them. The host does not know the bits.
 */
class DirtyRows {
 public:
  struct Collected {
    Buffer rows;
    Array<std::uint32_t> count;
    std::size_t most = 0;
    [[nodiscard]] RowList list() const { return {rows.data(), count.data(), most}; }
  };

  /** @brief Begins with no bit set. @throws out_of_memory, DeviceError */
  DirtyRows(ModelContext& context, std::size_t rows, IndexType type, std::uint32_t shift = 0);

  /**
   * @brief Makes a stream wait until main has cleared the bitmap, and main's free wait for the
   * stream.
   */
  void use_on(StreamRef stream);
  void mark_dirty(const RowList& list, StreamRef stream);
  /** @brief Marks row ids from the host, in any order. */
  void mark_dirty(std::span<const std::uint64_t> rows, Allocator& pinned, StreamRef stream);
  void mark_dirty(std::uint64_t first, std::uint64_t end, StreamRef stream);
  /** @brief Takes at most `most` rows out of the bitmap. The memory is ordered on `stream`. */
  [[nodiscard]] Collected collect(std::size_t most, StreamRef stream);

  /** @brief The bitmap for a kernel that changes it. */
  [[nodiscard]] DirtyView view() const {
    return {model::updates(bits_), model::updates(counts_), shape_};
  }
  [[nodiscard]] const BitShape& shape() const noexcept { return shape_; }
  [[nodiscard]] const Array<DirtyCounts>& counts() const noexcept { return counts_; }
  [[nodiscard]] IndexType type() const noexcept { return type_; }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return bits_.size() * 4 + sizeof(DirtyCounts);
  }

 private:
  ModelContext& context_;
  const BitShape shape_;
  const IndexType type_;
  Array<std::uint32_t> bits_;
  Array<DirtyCounts> counts_;
  Event made_;
  std::vector<StreamId> used_on_;
};

[[nodiscard]] constexpr std::size_t size_of(IndexType type) {
  return type == IndexType::int32 ? sizeof(std::uint32_t) : sizeof(std::uint64_t);
}

/** @brief Calls `function` with a value of the integer type of row ids. */
template <typename Function>
void with_key(IndexType type, Function&& function) {
  if (type == IndexType::int32) {
    function(std::uint32_t{});
  } else {
    function(std::uint64_t{});
  }
}

}  // namespace millrace::capture
