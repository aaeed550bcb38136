#include "sink/kafka/kafka_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/text/parse_number.hpp"
#include "sink/chain.hpp"
#include "sink/kafka/snapshot_requester.hpp"
#include "sink/kafka/topic/keys.hpp"
#include "sink/kafka/topic/read_rows.hpp"
#include "sink/kinds.hpp"

namespace millrace::sink {
namespace {

/** Returns the offsets to continue at; nothing if this is another topic of the same name. */
std::optional<std::vector<std::int64_t>> going_on(std::vector<std::int64_t> offsets,
                                                  const std::vector<Extent>& extents) {
  if (offsets.size() > extents.size()) return std::nullopt;
  offsets.resize(extents.size());
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (offsets[i] > extents[i].end) return std::nullopt;
    offsets[i] = std::max(offsets[i], extents[i].begin);
  }
  return offsets;
}

std::vector<std::byte> record_of(const StreamSchema& schema) {
  std::vector<std::byte> record;
  append_record(record, schema, Version{});
  return record;
}

}  // namespace

KafkaSink::KafkaSink(std::string_view spec, const KafkaLimits& limits)
    : name_(spec), address_(parse_kafka_address(spec)), limits_(limits) {}

const KafkaClient& KafkaSink::consumer() {
  if (!consumer_) consumer_.emplace(make_consumer(address_, name_, finish_by_));
  return *consumer_;
}

TopicProducer& KafkaSink::producer() {
  if (producer_ != nullptr && producer_->broken()) producer_.reset();
  if (producer_ == nullptr) {
    producer_ = std::make_unique<TopicProducer>(address_, address_.topic, name_, finish_by_);
  }
  return *producer_;
}

template <typename Body>
void KafkaSink::look(Body&& body) {
  try {
    body();
  } catch (const SinkError& error) {
    watched_.reset();
    failed_ = true;
    if (error.kind() != SinkError::Kind::lost) throw;
    known_ = false;
    throw SinkError{SinkError::Kind::retry, error.what()};
  }
}

void KafkaSink::catch_up() {
  watched_.reset();
  const std::int32_t partitions = consumer().partitions(address_.topic);
  if (partitions > 0) {
    const auto extents = extents_of(consumer(), address_.topic, partitions);
    auto from = going_on(offsets_, extents);
    // The topic was deleted and created again, so the known commits are not in it.
    if (!from) {
      commits_ = {};
      from = going_on({}, extents);
    }
    offsets_ = *from;
    TopicReading reading{consumer(), address_.topic, offsets_};
    reading.read_to(extents, [&](const TopicMessage& message) { commits_.add(message); });
    if (!commits_.schema() && !commits_.strange().empty()) {
      throw SinkError{
          SinkError::Kind::wrong,
          fmt::format("{}: the topic was not written by Millrace: {}", name_, commits_.strange())};
    }
    offsets_ = reading.offsets();
  }
  known_ = true;
}

SinkState KafkaSink::state() {
  const std::lock_guard lock{mutex_};
  look([&] { catch_up(); });
  return commits_.state();
}

void KafkaSink::begin(const StreamSchema& schema) {
  const std::lock_guard lock{mutex_};
  look([&] { catch_up(); });
  check_schema(schema, commits_.state(), name_);
  TopicProducer& to = producer();
  send_schema(to, schema);
  to.settle();
  commits_.set_schema(schema);
}

void KafkaSink::send_schema(TopicProducer& to, const StreamSchema& schema) {
  const std::vector<std::byte> record = record_of(schema);
  const std::string key = schema_key();
  for (std::int32_t part = 0; part < to.partitions(); ++part) {
    to.send({.part = part, .key = key, .record = record});
  }
}

void KafkaSink::write(const StepBatch& batch, std::string_view position) {
  const std::lock_guard lock{mutex_};
  const StepCommit& commit = batch.commit;
  const auto refuse_later = [&] {
    const std::uint64_t there = commits_.newest_epoch(commit.rank);
    if (there > commit.version.epoch) give_way(there, commit.version.epoch);
  };
  watch();
  refuse_later();
  const SinkState state = commits_.state();
  if (!continues(state, commit, name_)) return;
  if (!state.schema) {
    throw SinkError{SinkError::Kind::lost, fmt::format("{}: it has no schema", name_)};
  }
  const std::int64_t end = send_batch(batch, position);
  // Checked again after writing: the batch does not count if a later trainer's commit precedes its
  // own.
  look([&] { watch_to(end); });
  refuse_later();
}

/** Reads what other trainers have written since. */
void KafkaSink::watch() {
  if (!known_) return look([&] { catch_up(); });
  if (!commits_.schema()) return;
  look([&] {
    // Brokers answer this as soon as they are back; the end of a partition may take them long.
    if (failed_) static_cast<void>(consumer().partitions(address_.topic));
    failed_ = false;
    watch_to(extents_of(consumer(), address_.topic, 1).front().end);
  });
}

void KafkaSink::watch_to(std::int64_t end) {
  if (watched_ == nullptr) {
    offsets_.resize(std::max<std::size_t>(offsets_.size(), 1));
    watched_ =
        std::make_unique<TopicReading>(consumer(), address_.topic, std::vector{offsets_.front()});
  }
  watched_->read_to({{0, end}}, [&](const TopicMessage& message) { commits_.add(message); });
  offsets_.front() = watched_->offsets().front();
}

/**
 * Requests a snapshot from the later trainer, because a compacted topic keeps this trainer's rows
 * if they follow newer ones.
 */
void KafkaSink::give_way(std::uint64_t there, std::uint64_t epoch) {
  if (std::exchange(wrote_, false)) {
    try {
      SnapshotRequester{address_, name_, finish_by_}.ask();
    } catch (const SinkError&) {  // writing there is not permitted, or the time is up
    }
  }
  refuse_overtaken(there, epoch, name_);
}

void KafkaSink::audit(std::uint32_t, std::uint64_t epoch) {
  const std::lock_guard lock{mutex_};
  watch();
  const std::uint64_t there = commits_.newest_epoch();
  if (there > epoch) give_way(there, epoch);
}

void KafkaSink::send_rows(TopicProducer& to, const StepBatch& batch,
                          std::vector<std::uint64_t>& rows) {
  const StreamSchema& schema = *commits_.schema();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const RowRecord row = batch.row(i);
    if (row.table >= schema.tables.size()) {
      throw SinkError{SinkError::Kind::wrong,
                      fmt::format("{}: a row of table {}, but the schema has {} tables", name_,
                                  row.table, schema.tables.size())};
    }
    const std::string key = row_key(schema.tables[row.table].name, row.row);
    const std::int32_t part = partition_of(key, to.partitions());
    to.send({.part = part, .key = key, .record = batch.record(i), .rank = batch.commit.rank});
    ++rows[static_cast<std::size_t>(part)];
  }
}

// With each snapshot the schema is sent again, for topics that drop old messages.
/** @return the offset after its commit in partition 0 */
std::int64_t KafkaSink::send_batch(const StepBatch& batch, std::string_view position) {
  TopicProducer& to = producer();
  wrote_ = true;
  const std::int32_t parts = to.partitions();
  std::vector<std::uint64_t> rows(static_cast<std::size_t>(parts));
  if (batch.commit.after == Version{}) send_schema(to, *commits_.schema());
  send_rows(to, batch, rows);
  // A commit says that the rows before it are written, so all rows must be acknowledged first.
  to.settle();

  // One commit in each partition, because messages of different partitions have no order.
  const std::string key = commit_key(batch.commit.rank);
  for (std::int32_t part = 0; part < parts; ++part) {
    const std::uint64_t in_part = rows[static_cast<std::size_t>(part)];
    std::vector<std::byte> record;
    append_record(record, of_part(batch.commit, part, parts, in_part));
    to.send({.part = part,
             .key = key,
             .record = record,
             .rank = batch.commit.rank,
             .position = position});
  }
  const std::int64_t end = to.settle();
  for (std::int32_t part = 0; part < parts; ++part) {
    commits_.add(of_part(batch.commit, part, parts, rows[static_cast<std::size_t>(part)]),
                 position);
  }
  return end;
}

void KafkaSink::go_through(const TopicReading::Visit& visit) {
  watched_.reset();
  const std::int32_t partitions = consumer().partitions(address_.topic);
  if (partitions == 0) return;
  const auto extents = extents_of(consumer(), address_.topic, partitions);
  TopicReading reading{consumer(), address_.topic, *going_on({}, extents)};
  reading.read_to(extents, visit);
}

void KafkaSink::read(const std::function<void(const RowRecord&)>& visit) {
  const std::lock_guard lock{mutex_};
  look([&] {
    // Two passes: the first finds the newest message of each row.
    TopicRows rows;
    go_through([&](const TopicMessage& message) { rows.find(message); });
    go_through([&](const TopicMessage& message) { rows.visit(message, visit); });
    if (rows.left() == 0) return;
    throw SinkError{
        SinkError::Kind::retry,
        fmt::format("{}: {} rows were deleted while they were read", name_, rows.left())};
  });
}

void KafkaSink::look_for_requests() {
  const std::string topic = address_.requests();
  if (consumer().partitions(topic) == 0) return;
  const std::vector<Extent> extents = extents_of(consumer(), topic, 1);
  const auto from = going_on({requests_offset_}, extents);
  TopicReading reading{consumer(), topic, from ? *from : *going_on({}, extents)};
  reading.read_to(extents, [&](const TopicMessage& message) {
    std::string_view record{reinterpret_cast<const char*>(message.record.data()),
                            message.record.size()};
    const auto number = text::take_number<std::uint64_t>(record).value_or(0);
    if (number != 0) request_ = number;
  });
  requests_offset_ = reading.offsets().front();
}

std::uint64_t KafkaSink::snapshot_request() {
  const std::lock_guard lock{mutex_};
  const auto now = std::chrono::steady_clock::now();
  if (looked_ && now - *looked_ < limits_.requests_every) return request_;
  looked_ = now;
  look([&] { look_for_requests(); });
  return request_;
}

std::unique_ptr<Sink> open_kafka_sink(std::string_view spec) {
  return std::make_unique<KafkaSink>(spec);
}

}  // namespace millrace::sink
