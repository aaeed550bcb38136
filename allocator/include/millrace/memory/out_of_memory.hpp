#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <vector>

namespace millrace {

/** @brief Why a request could not be served: every reserved byte has a line. Sizes in bytes. */
struct MemoryPicture {
  struct Stranded {
    std::string stream;  ///< where the bytes are kept
    std::size_t bytes = 0;
    std::string usable;  ///< "after marker 17 of main", "never: stream is not attached"
  };

  std::size_t requested = 0, rounded = 0;
  std::string stream;
  std::size_t limit = 0;  ///< 0: none
  std::size_t reserved = 0, allocated = 0, pending = 0;
  std::size_t graph_pools = 0;       ///< of what is allocated: held for graphs
  std::size_t graph_pools_free = 0;  ///< of that, in no live block: for their captures only
  std::size_t usable = 0, largest_usable = 0;  ///< free, for this stream, now
  std::vector<Stranded> stranded;
  std::size_t device_free = 0, device_total = 0;
  std::size_t held_by_others = 0;  ///< device total - device free - reserved

  [[nodiscard]] std::string to_string() const;
};

/** @brief The device, and every cached block together, can not serve a request. */
class out_of_memory : public std::bad_alloc {
 public:
  explicit out_of_memory(MemoryPicture picture);
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] const MemoryPicture& picture() const noexcept { return picture_; }

 private:
  MemoryPicture picture_;
  std::string text_;
};

}  // namespace millrace
