#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sink/kafka/address.hpp"
#include "sink/kafka/producer.hpp"

namespace millrace::sink {

/** @brief Requests a snapshot from every rank that writes to a topic. */
class SnapshotRequester {
 public:
  /** @param address    outlives this
   *  @param finish_by  outlives this */
  SnapshotRequester(const KafkaAddress& address, std::string name,
                    const Deadline::Shared& finish_by = kNeverEnds);

  /** @brief Requests a snapshot. Each request has a new number. @throws SinkError */
  void ask();

 private:
  const KafkaAddress& address_;
  const std::string name_;
  const Deadline::Shared& finish_by_;
  std::unique_ptr<TopicProducer> producer_;
  std::uint64_t last_ = 0;
};

}  // namespace millrace::sink
