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

/** @brief Which row of a set is evicted when another row is fetched. */
enum class CachePolicy {
  lru,  ///< the least recently used row
  lfu,  ///< the row that the fewest batches used since it was fetched; among equals like `lru`
};
inline constexpr std::array kCachePolicies{CachePolicy::lru, CachePolicy::lfu};
/** @brief "lru", "lfu" */
[[nodiscard]] std::string_view to_string(CachePolicy policy) noexcept;

/**
 * @brief Keeps the rows and optimizer state of tables in pinned host memory, and a fraction of them
 *        in a cache on the device. The results are bit-identical; see docs/model.md.
 */
struct TableCache {
  /// Slots as a fraction of the rows, above 0; rounded up to sets of 32 slots. With 1 or more, each
  /// row has a slot and no row is evicted.
  double load_factor = 0.2;
  CachePolicy policy = CachePolicy::lru;
};

/** @brief Results of prefetches; each row of a batch counts once. */
struct CacheCounts {
  std::uint64_t hits = 0;         ///< rows that were in the cache
  std::uint64_t loads = 0;        ///< rows fetched from host memory
  std::uint64_t write_backs = 0;  ///< evicted rows that had changed
  std::uint64_t unplaced = 0;     ///< rows that stayed in host memory: no slot could be evicted
};

/**
 * @brief Keeps the rows of a prefetched batch in the cache until it is destroyed. Move-only; made
 * by EmbeddingBags.
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

  /** @brief Lets the rows be evicted. */
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

  std::shared_ptr<std::set<std::uint64_t>> held_;  ///< stamps of all prefetches that are held
  std::uint64_t stamp_ = 0;
};

}  // namespace millrace
