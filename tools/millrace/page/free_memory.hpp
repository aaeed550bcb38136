#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief Follows a device's memory through the events: the last block at each address, and the free
 *        memory that only the stream of its last block can use.
 */
class FreeMemory {
 public:
  /** A part of an earlier block's memory that a new block occupies. */
  struct Taken {
    std::uint32_t block;
    std::uint64_t bytes;
  };
  /** Returns the event from which the memory of a block is free for every stream that the page
   * shows. An empty function means never. */
  using UsableFrom = std::function<PageEvent(std::uint32_t block)>;

  /** @param blocks  must outlive this object and contain all blocks up to the current event */
  FreeMemory(const std::vector<PageBlock>& blocks, std::uint32_t device, UsableFrom usable = {})
      : blocks_(blocks), device_(device), usable_(std::move(usable)) {}

  /** @param stream  only this stream can use the memory until it has a block; kUnknown: any */
  void acquired(std::uint64_t begin, std::uint64_t end, std::uint32_t stream, PageEvent now);
  void released(std::uint64_t begin, std::uint64_t end, PageEvent now);
  /** @brief Moves memory and its blocks to other addresses. */
  void moved(std::uint64_t from, std::uint64_t to, std::uint64_t bytes, PageEvent now);
  /** @brief Gives a block its memory. @return the parts of earlier blocks in that memory */
  std::vector<Taken> taken(std::uint32_t block, PageEvent now);

  /** @brief Ends the last intervals at `end`. @return the free memory, in ascending order of its
   *         end */
  [[nodiscard]] std::vector<PageFree> finish(PageEvent end);

 private:
  struct Part {
    std::uint64_t end = 0;
    std::uint32_t block = kUnknown;   // kUnknown: none since the memory was acquired
    std::uint32_t stream = kUnknown;  // if no block had it
    PageEvent since = 0;              // since when it is at these addresses
  };

  template <typename Found>
  void remove(std::uint64_t begin, std::uint64_t end, PageEvent now, Found found);
  void close(std::uint64_t begin, std::uint64_t end, const Part& part, PageEvent now);

  const std::vector<PageBlock>& blocks_;
  const std::uint32_t device_;
  const UsableFrom usable_;
  std::map<std::uint64_t, Part> parts_;  // by first address
  std::vector<PageFree> free_;
};

}  // namespace millrace::cli
