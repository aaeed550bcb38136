#include "millrace/streamer/shipper.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "ship/worker.hpp"

namespace millrace {

std::string_view to_string(QueuePolicy policy) noexcept {
  switch (policy) {
    case QueuePolicy::coalesce:
      return "coalesce";
    case QueuePolicy::recapture:
      return "recapture";
    case QueuePolicy::block:
      return "block";
  }
  return "?";
}

Shipper::Shipper(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
                 const StreamBeginning& beginning, const ShippingOptions& options) {
  if (sink == nullptr) throw std::invalid_argument{"a shipper needs a sink"};
  if (options.first_retry <= Nanoseconds{0} || options.longest_retry < options.first_retry) {
    throw std::invalid_argument{
        "first_retry must be more than 0 s, and longest_retry at least first_retry"};
  }
  worker_ = std::make_unique<Worker>(std::move(sink), executor, recapture, beginning, options);
}

Shipper::~Shipper() { stop(Nanoseconds{0}); }

void Shipper::offer(Shipment shipment, Executor& caller) {
  worker_->offer(std::move(shipment), caller);
}
void Shipper::rows_lost(std::uint64_t ticket) { worker_->rows_lost(ticket); }
bool Shipper::drain(Nanoseconds at_most, bool look_for_absent) {
  return worker_->drain(at_most, look_for_absent);
}
void Shipper::close(Nanoseconds at_most) { worker_->close(at_most); }
void Shipper::stop(Nanoseconds at_most) { worker_->stop(at_most); }
ShippingHealth Shipper::health() const { return worker_->health(); }
ShippingReport Shipper::report() const { return worker_->report(); }

}  // namespace millrace
