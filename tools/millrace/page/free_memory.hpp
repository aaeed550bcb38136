#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief Which block has, or last had, each address of a device, at a moment that moves forward;
 *        and, for the page, where memory is free for its last user's stream only.
 */
class FreeMemory {
 public:
  /** A part of an earlier block's memory that a new block takes. */
  struct Taken {
    std::uint32_t block;
    std::uint64_t bytes;
  };
  /** From when on every stream may use the memory of a block; nothing: never. */
  using UsableByAll = std::function<PageEvent(std::uint32_t block)>;

  /** @param blocks  outlives this object; known up to the present moment */
  FreeMemory(const std::vector<PageBlock>& blocks, std::uint32_t device, UsableByAll usable = {})
      : blocks_(blocks), device_(device), usable_(std::move(usable)) {}

  /** @param stream  its free memory serves this stream only, until a block has it; kUnknown: all */
  void acquired(std::uint64_t begin, std::uint64_t end, std::uint32_t stream, PageEvent now);
  void released(std::uint64_t begin, std::uint64_t end, PageEvent now);
  /** @brief The memory has other addresses now. */
  void moved(std::uint64_t from, std::uint64_t to, std::uint64_t bytes, PageEvent now);
  /** @brief A block takes its memory. @return what had it before */
  std::vector<Taken> taken(std::uint32_t block, PageEvent now);

  /** @brief Ends at `end`. @return the free memory, by time of its end */
  [[nodiscard]] std::vector<PageFree> finish(PageEvent end);

 private:
  struct Part {
    std::uint64_t end = 0;
    std::uint32_t block = kUnknown;   // kUnknown: none since it was acquired
    std::uint32_t stream = kUnknown;  // without a block
    PageEvent since = 0;              // at these addresses
  };

  template <typename Found>
  void remove(std::uint64_t begin, std::uint64_t end, PageEvent now, Found found);
  void close(std::uint64_t begin, std::uint64_t end, const Part& part, PageEvent now);

  const std::vector<PageBlock>& blocks_;
  const std::uint32_t device_;
  const UsableByAll usable_;
  std::map<std::uint64_t, Part> parts_;  // by first address
  std::vector<PageFree> free_;
};

}  // namespace millrace::cli
