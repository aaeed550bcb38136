#pragma once

#include <algorithm>
#include <random>

#include "millrace/streamer/shipper.hpp"

namespace millrace::ship {

/** @brief Computes the pause before a retry: twice as long each time, with jitter. */
class Backoff {
 public:
  explicit Backoff(const ShippingOptions& options)
      : options_(options), pause_(options.first_retry), random_(options.seed) {}

  [[nodiscard]] Nanoseconds next() {
    const Nanoseconds whole = pause_;
    pause_ = std::min(2 * pause_, options_.longest_retry);
    const auto half = whole.count() / 2;
    return Nanoseconds{half +
                       static_cast<Nanoseconds::rep>(
                           random_() % static_cast<std::uint64_t>(whole.count() - half + 1))};
  }
  void reset() noexcept { pause_ = options_.first_retry; }

 private:
  const ShippingOptions& options_;
  Nanoseconds pause_;
  std::mt19937_64 random_;
};

}  // namespace millrace::ship
