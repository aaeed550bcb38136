#pragma once

#include <cstddef>

#include "millrace/device/operation.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

/** @brief A sampled quantity. Each value is valid until the next sample. */
class SampledSeries {
 public:
  /** @brief Adds a sample. @throws std::invalid_argument if `now` is earlier than the last one */
  void add(double value, Nanoseconds now);

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] double last() const noexcept { return last_; }
  [[nodiscard]] double peak() const noexcept { return peak_; }
  /** @brief Time-weighted mean from the first to the last sample; the last value if no time passed.
   */
  [[nodiscard]] double mean() const noexcept;

 private:
  std::size_t count_ = 0;
  Nanoseconds first_at_{0}, last_at_{0};
  double last_ = 0, peak_ = 0;
  double weighted_sum_ = 0;  ///< value x nanoseconds, less the last value
};

/**
 * @brief Samples an allocator's footprint and the part of it that one stream could use.
 *
 * The peaks are those of the samples; use PeakScope for exact peaks. A sample walks all blocks
 * under the allocator's lock, so take about one sample per step.
 */
class FootprintSampler {
 public:
  /** @param stream  the stream for usable and stranded bytes and fragmentation; usually main */
  FootprintSampler(Allocator& allocator, StreamRef stream)
      : allocator_(allocator), stream_(stream) {}

  /** @brief Takes a sample. @param now  time on a clock that does not go back */
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
