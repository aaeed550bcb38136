#pragma once

#include <cstddef>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace {

/**
 * @brief For each stream, the last marker known to happen before now.
 *
 * A marker is a numbered event on a stream. A frontier is a flat map sorted by slot, and not
 * thread-safe. It has few entries, because entries that the device is known to have passed are
 * dropped (`drop_completed`). A slot is given to a new stream only when all work of its previous
 * stream is complete. An entry for a stream therefore covers all earlier streams of that slot, and
 * one entry per slot is enough.
 */
class Frontier {
 public:
  Frontier() = default;
  /** @brief Makes a frontier that contains only `point`. */
  explicit Frontier(Point point) { advance(point); }

  /** @brief Returns the last marker of `stream` known to happen before now; 0 if none is known. */
  [[nodiscard]] Marker at(StreamId stream) const noexcept;

  /** @brief Returns whether all work up to `point` happens before now. */
  [[nodiscard]] bool covers(Point point) const noexcept { return at(point.stream) >= point.marker; }

  /** @brief Adds `point`. Keeps the newer one of two markers of the same stream. */
  void advance(Point point);

  /** @brief Sets this to the pointwise maximum with `other`; reuses its memory if that suffices. */
  void join(const Frontier& other);

  /**
   * @brief Drops the entries that `completed` covers. This and `completed` together still cover the
   *        same points.
   */
  void drop_completed(const Frontier& completed) {
    drop_if([&](Point point) { return completed.covers(point); });
  }

  /** @brief Drops the entries for which `done(point)` is true. */
  template <typename Predicate>
  void drop_if(Predicate&& done) {
    std::erase_if(points_, done);
  }

  /** @brief Removes all entries and keeps the memory. */
  void clear() noexcept { points_.clear(); }

  [[nodiscard]] bool empty() const noexcept { return points_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return points_.size(); }
  [[nodiscard]] auto begin() const noexcept { return points_.begin(); }
  [[nodiscard]] auto end() const noexcept { return points_.end(); }

  friend bool operator==(const Frontier&, const Frontier&) = default;

 private:
  void advance_among(Point point);
  void insert_missing(const Frontier& other, std::size_t count);

  std::vector<Point> points_;
};

}  // namespace millrace
