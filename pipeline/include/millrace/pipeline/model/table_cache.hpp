#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

namespace millrace {

namespace model {
class RowCache;
}

/** @brief Which of a set's rows goes when another one comes. */
enum class CachePolicy {
  lru,  ///< the one whose last batch is longest ago
  lfu,  ///< the one that the fewest batches used since it came; of those the least recent
};
inline constexpr std::array kCachePolicies{CachePolicy::lru, CachePolicy::lfu};
/** @brief "lru", "lfu" */
[[nodiscard]] std::string_view to_string(CachePolicy policy) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] CachePolicy parse_cache_policy(std::string_view name);

/**
 * @brief Tables whose rows and optimizer state are in pinned host memory, and a share of them in a
 *        cache on the device. What is computed is the same to the bit; see docs/model.md.
 */
struct TableCache {
  /** Slots as a share of the rows, above 0; in sets of 32, at least one. From 1 on there is a slot
   * for each row, and none ever goes. */
  double load_factor = 0.2;
  CachePolicy policy = CachePolicy::lru;
};

/** @brief What prefetches found, of the rows of each batch, each row once. */
struct CacheCounts {
  std::uint64_t hits = 0;         ///< there already
  std::uint64_t loads = 0;        ///< brought from host memory
  std::uint64_t write_backs = 0;  ///< rows that went, and had changed
  std::uint64_t unplaced = 0;     ///< stayed in host memory: their set had no slot to give up
};

/**
 * @brief Holds the rows of a batch where a prefetch found or brought them: in the cache. Gone, they
 *        may go. Move-only; made by EmbeddingBags.
 */
class HeldRows {
 public:
  HeldRows() = default;
  ~HeldRows() { release(); }
  HeldRows(HeldRows&& other) noexcept
      : held_(std::move(other.held_)), stamp_(std::exchange(other.stamp_, 0)) {}
  HeldRows& operator=(HeldRows&& other) noexcept {
    if (this != &other) {
      release();
      held_ = std::move(other.held_);
      stamp_ = std::exchange(other.stamp_, 0);
    }
    return *this;
  }

  void release() noexcept {
    if (held_) held_->erase(stamp_);
    held_.reset();
  }

 private:
  friend class model::RowCache;
  HeldRows(std::shared_ptr<std::set<std::uint64_t>> held, std::uint64_t stamp)
      : held_(std::move(held)), stamp_(stamp) {
    held_->insert(stamp_);
  }

  std::shared_ptr<std::set<std::uint64_t>> held_;  ///< stamps of the prefetches that are held
  std::uint64_t stamp_ = 0;
};

}  // namespace millrace
