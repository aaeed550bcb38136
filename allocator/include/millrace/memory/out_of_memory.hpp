#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <vector>

namespace millrace {

/** @brief Why a request failed: accounts for every reserved byte. Sizes are in bytes. */
struct MemoryPicture {
  /** @brief Free bytes that this request could not use. */
  struct Stranded {
    std::string stream;  ///< the stream for which the bytes are kept
    std::size_t bytes = 0;
    std::string usable;  ///< "after marker 17 of main", "not until copy is marked ..."
  };

  std::size_t requested = 0, rounded = 0;
  std::string stream;
  std::size_t limit = 0;  ///< 0: no limit
  std::size_t reserved = 0, allocated = 0, pending = 0;
  std::size_t graph_pools = 0;                 ///< part of `allocated` that is held for CUDA graphs
  std::size_t graph_pools_free = 0;            ///< part of `graph_pools` outside live blocks
  std::size_t usable = 0, largest_usable = 0;  ///< free bytes that this stream could use now
  std::vector<Stranded> stranded;
  std::size_t device_free = 0, device_total = 0;
  std::size_t held_by_others = 0;  ///< device total - device free - reserved

  [[nodiscard]] std::string to_string() const;  ///< several lines, for people
};

/** @brief The device and every cached block together cannot serve a request. */
class out_of_memory : public std::bad_alloc {
 public:
  /** @brief Makes the message from `picture`. */
  explicit out_of_memory(MemoryPicture picture);
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  /** @brief Returns the numbers of the message. */
  [[nodiscard]] const MemoryPicture& picture() const noexcept { return picture_; }

 private:
  MemoryPicture picture_;
  std::string text_;
};

}  // namespace millrace
