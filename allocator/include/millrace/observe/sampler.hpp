#pragma once

#include <cstddef>

#include "millrace/device/operation.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

/** @brief A quantity that was sampled: each value holds until the next sample. */
class SampledSeries {
 public:
  /** @throws std::invalid_argument if `now` is before the last sample */
  void add(double value, Nanoseconds now);

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] double last() const noexcept { return last_; }
  [[nodiscard]] double peak() const noexcept { return peak_; }
  /** @brief Over the time between the first sample and the last, by how long each value held; if
   * no time passed, the last value. */
  [[nodiscard]] double mean() const noexcept;

 private:
  std::size_t count_ = 0;
  Nanoseconds first_at_{0}, last_at_{0};
  double last_ = 0, peak_ = 0;
  double weighted_sum_ = 0;  ///< value x nanoseconds, less the last value
};

/**
 * @brief Collects an allocator's footprint, and what one stream could have of it.
 *
 * Peaks are those of the samples; between samples a PeakScope does not miss any. A sample walks all
 * of the allocator's blocks under its lock: once a step is what it is for.
 */
class FootprintSampler {
 public:
  /** @param stream  whose stranded bytes and fragmentation are of interest: the main stream's */
  FootprintSampler(Allocator& allocator, StreamRef stream)
      : allocator_(allocator), stream_(stream) {}

  /** @param now  of any clock that does not go back */
  void sample(Nanoseconds now);

  // Bytes.
  [[nodiscard]] const SampledSeries& requested() const noexcept { return requested_; }
  [[nodiscard]] const SampledSeries& allocated() const noexcept { return allocated_; }
  [[nodiscard]] const SampledSeries& active() const noexcept { return active_; }
  [[nodiscard]] const SampledSeries& reserved() const noexcept { return reserved_; }
  [[nodiscard]] const SampledSeries& usable() const noexcept { return usable_; }
  [[nodiscard]] const SampledSeries& stranded() const noexcept { return stranded_; }
  /** @brief External fragmentation for the stream, 0 to 1. */
  [[nodiscard]] const SampledSeries& fragmentation() const noexcept { return fragmentation_; }

 private:
  Allocator& allocator_;
  StreamRef stream_;
  SampledSeries requested_, allocated_, active_, reserved_, usable_, stranded_, fragmentation_;
};

}  // namespace millrace
