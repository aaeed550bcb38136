#pragma once

#include <memory>
#include <optional>
#include <string>

#include "millrace/streamer/sink.hpp"
#include "sink/kafka/address.hpp"
#include "sink/kafka/snapshot_requester.hpp"
#include "sink/kafka/topic/assembly.hpp"
#include "sink/kafka/topic_reading.hpp"

namespace millrace::sink {

/**
 * @brief Reads batches from a topic that a KafkaSink writes to.
 *
 * One consumer reads all partitions, without a consumer group. The position has their offsets, and
 * the applier keeps it. A compacted topic is read like any other (see TopicAssembly). Messages that
 * retention removed before they were read are lost. If retention removed the schema, the one that
 * was read or given before is used; a reader without one requests a snapshot, which brings the
 * schema again.
 */
class KafkaSource final : public RecordSource {
 public:
  /** @throws std::invalid_argument if the address names no topic */
  explicit KafkaSource(std::string_view spec);

  [[nodiscard]] std::string name() const override { return name_; }
  void seek(std::string_view position) override;
  [[nodiscard]] std::optional<StreamSchema> schema() override;
  void take_schema(const StreamSchema& schema) override;
  [[nodiscard]] std::optional<Next> next(std::chrono::nanoseconds patience) override;
  [[nodiscard]] Left left() override;
  void ask_for_snapshot() override;

 private:
  const KafkaClient& consumer();
  void stop();
  bool start();
  [[nodiscard]] TopicPosition begin_of(const std::vector<Extent>& extents) const;
  [[nodiscard]] std::vector<Extent> extents();
  void check_there(const std::vector<Extent>& extents) const;
  [[nodiscard]] std::optional<StreamSchema> first_schema(const std::vector<Extent>& extents);
  bool read_some(std::chrono::milliseconds patience);

  const std::string name_;
  const KafkaAddress address_;
  std::optional<KafkaClient> consumer_;
  std::optional<TopicPosition> position_;  ///< none: the beginning
  std::optional<StreamSchema> schema_;     ///< schema that was read or given before this reading
  std::optional<TopicAssembly> assembly_;
  std::unique_ptr<TopicReading> reading_;
  SnapshotRequester requester_;
  bool asked_for_schema_ = false;
};

}  // namespace millrace::sink
