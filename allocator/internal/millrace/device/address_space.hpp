#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace millrace::simulation {

/** @brief Offsets in [0, size), given out first fit: the same calls give the same offsets. */
class AddressSpace {
 public:
  explicit AddressSpace(std::size_t size);

  /** @brief `bytes` > 0. Nothing if no hole is large enough. */
  [[nodiscard]] std::optional<std::size_t> take(std::size_t bytes);
  /** @brief Gives back what `take` gave. @return its size, 0 if `offset` is not the start of one */
  std::size_t give(std::size_t offset);

  [[nodiscard]] bool starts(std::size_t offset) const { return taken_.contains(offset); }
  /** @brief Whether [offset, offset + bytes) lies in one taken range. */
  [[nodiscard]] bool holds(std::size_t offset, std::size_t bytes) const noexcept;
  /** @brief Offset to size. */
  [[nodiscard]] const std::map<std::size_t, std::size_t>& taken() const noexcept { return taken_; }
  [[nodiscard]] std::size_t taken_bytes() const noexcept { return taken_bytes_; }

 private:
  std::map<std::size_t, std::size_t> holes_;  ///< offset to size, never adjacent
  std::map<std::size_t, std::size_t> taken_;
  std::size_t taken_bytes_ = 0;
};

/** @brief Which offsets have memory under them. Neighbors count as one piece. */
class MappedOffsets {
 public:
  /** @return false, and nothing has changed, if some of it is mapped already */
  [[nodiscard]] bool add(std::size_t offset, std::size_t bytes);
  /** @return false, and nothing has changed, if some of it is not mapped */
  [[nodiscard]] bool remove(std::size_t offset, std::size_t bytes);

  [[nodiscard]] bool holds(std::size_t offset, std::size_t bytes) const noexcept;
  /** @brief Offset to size, never adjacent. */
  [[nodiscard]] const std::map<std::size_t, std::size_t>& pieces() const noexcept {
    return pieces_;
  }

 private:
  std::map<std::size_t, std::size_t> pieces_;
};

}  // namespace millrace::simulation
