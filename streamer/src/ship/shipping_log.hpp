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
 * @brief Counts what a shipper did, for its report. Not thread-safe: the shipper's mutex protects
 * it.
 */
class ShippingLog {
 public:
  ShippingLog(std::string sink, std::uint64_t epoch) : epoch_(epoch) {
    report_.sink = std::move(sink);
  }

  void offered(const StepCommit& commit) { report_.offered = {epoch_, commit.step}; }
  /** @brief Counts a step that was offered after the end. */
  void refused(const StepBatch& batch);
  void queued(std::size_t bytes);
  void recaptured(std::uint64_t rows) { report_.recaptured_rows += rows; }
  void absent(std::uint64_t rows) { report_.absent_rows += rows; }
  void snapshot() { ++report_.snapshots; }
  void unchecked(std::string why) { report_.unchecked = std::move(why); }

  /** @brief Call when steps were taken from the queue and are going to be written. */
  void begin(const MergedSteps& steps);
  /** @brief Call after these steps were written. */
  void delivered(const MergedSteps& steps, Nanoseconds now);
  /** @brief Call when no steps are being written. */
  void idle() { steps_ = rows_ = 0; }
  /** @return capture time of the oldest step that is being written; nothing if none is */
  [[nodiscard]] std::optional<Nanoseconds> oldest() const {
    return steps_ > 0 ? std::optional{since_} : std::nullopt;
  }

  /**
   * @brief Call when the shipper ends.
   * @param why        why the sink was given up; empty: it was not
   * @param overtaken  a later trainer replaces everything that was delivered: none of it counts
   */
  void end(const std::string& why, bool overtaken);

  /** @brief Returns the report, without the values of the queue and the retrier. */
  [[nodiscard]] ShippingReport report() const;

 private:
  const std::uint64_t epoch_;
  ShippingReport report_;
  Lags lags_;
  std::uint64_t steps_ = 0, rows_ = 0;  ///< steps and rows that are being written
  Nanoseconds since_{0};                ///< capture time of the first of these steps
};

}  // namespace millrace::ship
