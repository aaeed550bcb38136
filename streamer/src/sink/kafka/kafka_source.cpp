#include "sink/kafka/kafka_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "sink/chain.hpp"
#include "sink/kinds.hpp"

namespace millrace::sink {
namespace {

constexpr std::chrono::milliseconds kGlance{100};

/** Returns the number of messages before these ends. Compacted ones count until they are passed. */
std::uint64_t unread(const std::vector<std::int64_t>& offsets, const std::vector<Extent>& ends) {
  std::uint64_t messages = 0;
  for (std::size_t i = 0; i < std::min(offsets.size(), ends.size()); ++i) {
    const std::int64_t from = std::max(offsets[i], ends[i].begin);
    if (from < ends[i].end) messages += static_cast<std::uint64_t>(ends[i].end - from);
  }
  return messages;
}

}  // namespace

KafkaSource::KafkaSource(std::string_view spec)
    : name_(spec), address_(parse_kafka_address(spec)), requester_(address_, name_) {}

const KafkaClient& KafkaSource::consumer() {
  if (!consumer_) consumer_.emplace(make_consumer(address_, name_));
  return *consumer_;
}

/** Forgets everything that was read, except the schema, which never changes in a topic. */
void KafkaSource::stop() {
  reading_.reset();
  if (assembly_ && assembly_->schema()) schema_ = assembly_->schema();
  assembly_.reset();
}

void KafkaSource::take_schema(const StreamSchema& schema) {
  check_schema(schema, {.schema = assembly_ ? assembly_->schema() : schema_}, name_);
  schema_ = schema;
  if (assembly_) assembly_->take_schema(schema);
}

void KafkaSource::seek(std::string_view position) {
  stop();
  position_.reset();
  asked_for_schema_ = false;
  if (position.empty()) return;
  try {
    position_ = parse_topic_position(position);
  } catch (const std::invalid_argument& error) {
    throw SinkError{SinkError::Kind::wrong, fmt::format("{}: {}", name_, error.what())};
  }
  (void)start();
}

void KafkaSource::check_there(const std::vector<Extent>& extents) const {
  const auto& offsets = position_->offsets;
  for (std::size_t i = 0; i < std::max(offsets.size(), extents.size()); ++i) {
    const std::int64_t offset = i < offsets.size() ? offsets[i] : 0;
    if (i < extents.size() && offset >= extents[i].begin && offset <= extents[i].end) continue;
    throw SinkError{
        SinkError::Kind::lost,
        fmt::format("{}: offset {} of partition {} no longer exists", name_, offset, i)};
  }
}

/** Finds the schema of a topic that is read from the middle: it may precede that place. */
std::optional<StreamSchema> KafkaSource::first_schema(const std::vector<Extent>& extents) {
  std::optional<StreamSchema> schema;
  TopicReading front{consumer(), address_.topic, {extents.front().begin}};
  MessageReader reader;
  Silence silence{consumer()};
  while (!schema && front.offsets().front() < extents.front().end) {
    silence.heard(front.read_some(kGlance, [&](const TopicMessage& message) {
      const auto record = reader.read(message);
      if (!schema && record && record->kind == RecordKind::schema) schema = record->schema;
    }));
  }
  return schema;
}

TopicPosition KafkaSource::begin_of(const std::vector<Extent>& extents) const {
  TopicPosition begin;
  if (position_) {
    check_there(extents);
    begin = *position_;
    begin.offsets.resize(extents.size());
    return begin;
  }
  for (const Extent& extent : extents) {
    begin.offsets.push_back(extent.begin);
    begin.whole = begin.whole && extent.begin == 0;
  }
  return begin;
}

/** Returns the extents of the partitions that are read. */
std::vector<Extent> KafkaSource::extents() {
  const auto parts = static_cast<std::int32_t>(reading_->offsets().size());
  return extents_of(consumer(), address_.topic, parts);
}

bool KafkaSource::start() {
  if (reading_ != nullptr) return true;
  const std::int32_t partitions = consumer().partitions(address_.topic);
  if (partitions == 0) {
    if (position_) check_there({});
    return false;
  }
  const std::vector<Extent> there = extents_of(consumer(), address_.topic, partitions);
  const TopicPosition start = begin_of(there);
  assembly_.emplace(start, name_, [this] {
    std::vector<std::int64_t> ends;
    for (const Extent& extent : extents()) ends.push_back(extent.end);
    return ends;
  });
  if (position_) {
    if (const auto schema = first_schema(there)) assembly_->take_schema(*schema);
  }
  if (schema_) assembly_->take_schema(*schema_);
  reading_ = std::make_unique<TopicReading>(consumer(), address_.topic, start.offsets);
  return true;
}

bool KafkaSource::read_some(std::chrono::milliseconds patience) {
  try {
    const bool any = reading_->read_some(
        patience, [&](const TopicMessage& message) { assembly_->add(message); });
    while (reading_->offsets().size() < assembly_->parts()) reading_->add_partition();
    return any;
  } catch (...) {
    stop();
    throw;
  }
}

std::optional<StreamSchema> KafkaSource::schema() {
  if (!start()) return std::nullopt;
  if (assembly_->schema()) return assembly_->schema();
  const std::vector<Extent> ends = extents();
  Silence silence{consumer()};
  while (!assembly_->schema() && unread(reading_->offsets(), ends) > 0) {
    silence.heard(read_some(kGlance));
  }
  if (!assembly_->schema() && !assembly_->strange().empty()) {
    throw RecordError{fmt::format("{}: {}", name_, assembly_->strange())};
  }
  if (!assembly_->schema() && !assembly_->whole() && !asked_for_schema_) {
    ask_for_snapshot();
    asked_for_schema_ = true;
  }
  return assembly_->schema();
}

std::optional<RecordSource::Next> KafkaSource::next(std::chrono::nanoseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (assembly_) {
      if (auto next = assembly_->take()) return next;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto wait = std::clamp(left, std::chrono::milliseconds{0}, kGlance);
    if (!start()) {
      std::this_thread::sleep_for(wait);
    } else if (read_some(wait)) {
      continue;
    }
    if (left <= std::chrono::milliseconds{0}) return std::nullopt;
  }
}

RecordSource::Left KafkaSource::left() {
  Left left{.unit = "messages"};
  if (!start()) return left;
  const std::vector<Extent> there = extents();
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (reading_->offsets()[i] <= there[i].end) continue;
    throw SinkError{
        SinkError::Kind::lost,
        fmt::format(
            "{}: partition {} ends before the messages that were read: the topic was created again",
            name_, i)};
  }
  left.count = unread(reading_->offsets(), there);
  if (left.count == 0 && assembly_->has_next()) left.count = 1;  // at least its commit
  return left;
}

void KafkaSource::ask_for_snapshot() { requester_.ask(); }

std::unique_ptr<RecordSource> open_kafka_source(std::string_view spec) {
  return std::make_unique<KafkaSource>(spec);
}

}  // namespace millrace::sink
