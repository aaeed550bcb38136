#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "millrace/streamer/lag.hpp"
#include "millrace/streamer/shipper.hpp"
#include "ship/ship_queue.hpp"

namespace millrace::ship {

/**
 * @brief What a shipper has done, for its report. Not thread-safe: the shipper's mutex protects it.
 */
class ShippingLog {
 public:
  ShippingLog(std::string sink, std::uint64_t epoch) : epoch_(epoch) {
    report_.sink = std::move(sink);
  }

  void offered(const StepCommit& commit) { report_.offered = {epoch_, commit.step}; }
  /** @brief A step was offered after the end. */
  void refused(const StepBatch& batch);
  void queued(std::size_t bytes);
  void recaptured(std::uint64_t rows) { report_.recaptured_rows += rows; }
  void absent(std::uint64_t rows) { report_.absent_rows += rows; }
  void snapshot() { ++report_.snapshots; }
  void unchecked(std::string why) { report_.unchecked = std::move(why); }

  /** @brief Steps were taken from the queue, and are being written. */
  void begin(const MergedSteps& steps);
  /** @brief They were written. */
  void delivered(const MergedSteps& steps, Nanoseconds now);
  /** @brief No steps are being written. */
  void idle() { steps_ = rows_ = 0; }
  /** @return when the oldest step that is being written was captured; nothing: none is */
  [[nodiscard]] std::optional<Nanoseconds> oldest() const {
    return steps_ > 0 ? std::optional{since_} : std::nullopt;
  }

  /**
   * @brief The shipper ends.
   * @param why        the sink was given up; empty: it was not
   * @param overtaken  a later trainer replaces what was delivered: none of it counts
   */
  void end(const std::string& why, bool overtaken);

  /** @brief The report, without what the queue and the retrier know. */
  [[nodiscard]] ShippingReport report() const;

 private:
  const std::uint64_t epoch_;
  ShippingReport report_;
  Lags lags_;
  std::uint64_t steps_ = 0, rows_ = 0;  ///< being written
  Nanoseconds since_{0};                ///< when the first of these steps was captured
};

}  // namespace millrace::ship
