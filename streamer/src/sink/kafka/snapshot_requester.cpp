#include "sink/kafka/snapshot_requester.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace millrace::sink {
namespace {

std::uint64_t milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace

SnapshotRequester::SnapshotRequester(const KafkaAddress& address, std::string name,
                                     const Deadline::Shared& finish_by)
    : address_(address), name_(std::move(name)), finish_by_(finish_by) {}

void SnapshotRequester::ask() {
  if (producer_ != nullptr && producer_->broken()) producer_.reset();
  if (producer_ == nullptr) {
    producer_ = std::make_unique<TopicProducer>(address_, address_.requests(), name_, finish_by_);
  }
  last_ = std::max(last_ + 1, milliseconds_now());  // each gets a new number
  const std::string number = std::to_string(last_);
  producer_->send({.part = 0, .key = "snapshot", .record = std::as_bytes(std::span{number})});
  producer_->settle();
}

}  // namespace millrace::sink
