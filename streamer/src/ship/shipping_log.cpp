#include "ship/shipping_log.hpp"

#include <algorithm>
#include <utility>

namespace millrace::ship {

void ShippingLog::refused(const StepBatch& batch) {
  ++report_.undelivered_steps;
  report_.undelivered_rows += batch.size();
}

void ShippingLog::queued(std::size_t bytes) {
  report_.most_queue_bytes = std::max(report_.most_queue_bytes, bytes);
}

void ShippingLog::begin(const MergedSteps& steps) {
  steps_ = steps.captured.steps();
  rows_ = steps.shipment.batch.size();
  since_ = steps.captured.oldest();
}

void ShippingLog::delivered(const MergedSteps& steps, Nanoseconds now) {
  const StepBatch& batch = steps.shipment.batch;
  report_.delivered = {epoch_, batch.commit.step};
  report_.steps += steps_;
  report_.rows += batch.size();
  report_.bytes += batch.bytes();
  idle();
  for (const auto& entry : steps.captured.entries()) lags_.add(now - entry.at, entry.steps);
}

void ShippingLog::end(const std::string& why, bool overtaken) {
  report_.given_up = why;
  if (!overtaken) return;
  // The later trainer's rows replace everything that was delivered.
  report_.undelivered_steps += std::exchange(report_.steps, 0);
  report_.undelivered_rows += std::exchange(report_.rows, 0);
  report_.bytes = 0;
  report_.delivered = {};
}

ShippingReport ShippingLog::report() const {
  ShippingReport report = report_;
  report.undelivered_steps += steps_;
  report.undelivered_rows += rows_;
  report.lag_p50 = lags_.quantile(0.5);
  report.lag_p99 = lags_.quantile(0.99);
  report.lag_most = lags_.longest();
  return report;
}

}  // namespace millrace::ship
