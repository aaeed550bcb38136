#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace::ordering {

/**
 * A table that only grows. Its elements never move, so that any thread finds them without a lock.
 * Chunk c has room for 64 << c elements. An element is made when it is added, so unused room takes
 * no physical memory.
 */
template <typename Element>
class StableTable {
 public:
  StableTable() = default;
  StableTable(const StableTable&) = delete;
  StableTable& operator=(const StableTable&) = delete;
  ~StableTable() {
    const std::uint32_t all = size();
    for (std::uint32_t i = 0; i < all; ++i) std::destroy_at(&(*this)[i]);
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      if (Element* const chunk = chunks_[c].load()) memory().deallocate(chunk, room(c));
    }
  }

  /** Returns the element; nullptr if it was never added. */
  [[nodiscard]] Element* find(std::uint32_t index) const noexcept {
    return index < size_.load(std::memory_order_acquire) ? &(*this)[index] : nullptr;
  }

  [[nodiscard]] Element& operator[](std::uint32_t index) const noexcept {
    if (index < kFirst) return chunks_[0].load(std::memory_order_acquire)[index];
    const auto [chunk, offset] = place(index);
    return chunks_[chunk].load(std::memory_order_acquire)[offset];
  }

  [[nodiscard]] std::uint32_t size() const noexcept { return size_.load(); }

  /** Adds an element and returns its index. Only one thread at a time may call it. */
  std::uint32_t add() {
    const std::uint32_t index = size_.load();
    const auto [chunk, offset] = place(index);
    Element* elements = chunks_[chunk].load(std::memory_order_relaxed);
    if (elements == nullptr) {
      elements = memory().allocate(room(chunk));
      chunks_[chunk].store(elements, std::memory_order_release);
    }
    std::construct_at(elements + offset);
    size_.store(index + 1, std::memory_order_release);
    return index;
  }

  /** Adds elements until `index` exists. Only one thread at a time may call it. */
  Element& grow_to(std::uint32_t index) {
    while (size() <= index) add();
    return (*this)[index];
  }

 private:
  static constexpr std::uint32_t kFirst = 64;

  static std::allocator<Element> memory() noexcept { return {}; }
  static constexpr std::size_t room(std::size_t chunk) noexcept {
    return std::size_t{kFirst} << chunk;
  }

  struct Place {
    std::size_t chunk, offset;
  };
  static Place place(std::uint32_t index) noexcept {
    const std::uint64_t i = std::uint64_t{index} + kFirst;
    const auto chunk = static_cast<std::size_t>(std::bit_width(i) - std::bit_width(kFirst));
    return {chunk, static_cast<std::size_t>(i - (std::uint64_t{kFirst} << chunk))};
  }

  std::array<std::atomic<Element*>, 27> chunks_{};
  std::atomic<std::uint32_t> size_{0};
};

}  // namespace millrace::ordering
