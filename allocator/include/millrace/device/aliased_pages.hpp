#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <unordered_map>

namespace millrace {

/**
 * @brief Knows which pages are mapped at several addresses, for devices that only count their
 *        memory.
 *
 * Pages that were never mapped a second time have no entry here and cost nothing.
 */
class AliasedPages {
 public:
  /**
   * @brief Makes an object that knows no page.
   * @param page_bytes  all addresses and sizes are multiples of it
   * @param memory      serves the tables; outlives this object
   */
  explicit AliasedPages(std::size_t page_bytes,
                        std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : page_bytes_(page_bytes), pages_(memory), mappings_(memory) {}

  /** @brief Notes that the pages at `from` are mapped at `to` as well. */
  void alias(const void* to, const void* from, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += page_bytes_) {
      const auto known = pages_.try_emplace(number(from, at), next_);
      const std::uint64_t page = known.first->second;
      if (known.second) mappings_[next_++] = 1;
      ++mappings_[page];
      pages_[number(to, at)] = page;
    }
  }

  /**
   * @brief Notes that the pages at `address` are unmapped there.
   * @return the bytes among them that are mapped nowhere now
   */
  std::size_t unmap(const void* address, std::size_t bytes) {
    if (pages_.empty()) return bytes;
    std::size_t gone = bytes;
    for (std::size_t at = 0; at < bytes; at += page_bytes_) {
      const auto page = pages_.find(number(address, at));
      if (page == pages_.end()) continue;
      const auto mappings = mappings_.find(page->second);
      pages_.erase(page);
      if (--mappings->second > 0) {
        gone -= page_bytes_;
      } else {
        mappings_.erase(mappings);
      }
    }
    return gone;
  }

 private:
  static std::uintptr_t number(const void* address, std::size_t at) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) + at;
  }

  const std::size_t page_bytes_;
  std::uint64_t next_ = 0;
  std::pmr::unordered_map<std::uintptr_t, std::uint64_t> pages_;  // page number by address
  std::pmr::unordered_map<std::uint64_t, std::size_t> mappings_;  // their number by page
};

}  // namespace millrace
