#pragma once

#include <cstddef>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace {

/**
 * @brief For each stream, the last marker known to happen before now.
 *
 * A flat map sorted by slot: frontiers hold a handful of entries, because those that the device is
 * known to have passed are dropped (`drop_completed`). A slot is let again only when all work of
 * its last tenant is complete, so an entry for a tenant covers every earlier tenant too and one
 * entry per slot is enough. Not synchronised.
 */
class Frontier {
 public:
  Frontier() = default;
  /** @brief Of one point: waiting for `point` and nothing else. */
  explicit Frontier(Point point) { advance(point); }

  /** @brief The last marker of `stream` known to be before now; 0 if none is. */
  [[nodiscard]] Marker at(StreamId stream) const noexcept;

  /** @brief Whether everything that `point` stands for happens before now. */
  [[nodiscard]] bool covers(Point point) const noexcept { return at(point.stream) >= point.marker; }

  /** @brief Adds `point`; an older marker of the same stream is replaced, a newer one stays. */
  void advance(Point point);

  /** @brief Pointwise maximum with `other`, in the memory that is there if it is enough. */
  void join(const Frontier& other);

  /** @brief Drops the entries that `completed` covers: asking both answers as before. */
  void drop_completed(const Frontier& completed) {
    drop_if([&](Point point) { return completed.covers(point); });
  }

  template <typename Predicate>
  void drop_if(Predicate&& done) {
    std::erase_if(points_, done);
  }

  /** @brief Empty again, with its memory for what comes next. */
  void clear() noexcept { points_.clear(); }

  [[nodiscard]] bool empty() const noexcept { return points_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return points_.size(); }
  [[nodiscard]] auto begin() const noexcept { return points_.begin(); }
  [[nodiscard]] auto end() const noexcept { return points_.end(); }

  friend bool operator==(const Frontier&, const Frontier&) = default;

 private:
  void insert_missing(const Frontier& other, std::size_t count);

  std::vector<Point> points_;
};

}  // namespace millrace
