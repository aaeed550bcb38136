#include "sink/redis/upload.hpp"

#include <fmt/format.h>

#include <type_traits>

#include "sink/chain.hpp"

namespace millrace::sink {
namespace {

/** Encodes a version as records do: versions compare like their bytes. */
std::string encoded(Version version) {
  std::string bytes;
  for (const std::uint64_t number : {version.epoch, version.step}) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<char>(number >> shift & 0xFF));
    }
  }
  return bytes;
}

template <typename T>
std::string record_of(const T& what) {
  std::vector<std::byte> bytes;
  if constexpr (std::is_same_v<T, StreamSchema>) {
    append_record(bytes, what, Version{});
  } else {
    append_record(bytes, what);
  }
  return std::string{text_of(bytes)};
}

}  // namespace

RedisUpload::RedisUpload(const RedisTarget& target, const StreamSchema& schema,
                         const StepBatch& batch, std::string_view position)
    : target_(target),
      schema_(schema),
      batch_(batch),
      position_(position),
      rank_(std::to_string(batch.commit.rank)),
      after_(encoded(batch.commit.after)),
      version_(encoded(batch.commit.version)),
      commit_(record_of(batch.commit)) {
  if (batch.commit.after == Version{}) schema_record_ = record_of(schema);
}

void RedisUpload::run() {
  RowRange part = range_from(0);
  for (; !part.last && !repeat_ && newest_.empty(); part = range_from(part.end)) {
    send(part);
    // Several calls are in flight at once, because each takes a round trip.
    if (in_flight_ == target_.limits.calls) settle();
  }
  // The last part has the commit: it is sent once all others are answered.
  while (in_flight_ > 0) settle();
  if (!repeat_ && newest_.empty()) {
    send(part);
    settle();
  }
  if (newest_.empty()) return;
  const Version newest = record_version(std::as_bytes(std::span{newest_}));
  const std::uint64_t epoch = batch_.commit.version.epoch;
  if (newest.epoch > epoch) refuse_overtaken(newest.epoch, epoch, target_.name);
  if (batch_.commit.after == Version{}) {
    throw SinkError{SinkError::Kind::lost,
                    fmt::format("{}: the first rows of a batch of rank {} were removed before the "
                                "last ones arrived",
                                target_.name, rank_)};
  }
  refuse_lost(batch_.commit, newest, target_.name);
}

RedisUpload::RowRange RedisUpload::range_from(std::size_t begin) const {
  RowRange part{.begin = begin, .end = begin};
  std::size_t bytes = 0;
  while (part.end < batch_.size() && part.end - begin < target_.limits.call_rows &&
         bytes < target_.limits.call_bytes) {
    bytes += batch_.record(part.end++).size();
  }
  part.last = part.end == batch_.size();
  return part;
}

std::string RedisUpload::key_of(std::size_t row) const {
  const RowRecord record = batch_.row(row);
  if (record.table >= schema_.tables.size()) {
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("{}: a row of table {}, but the schema has {} tables", target_.name,
                                record.table, schema_.tables.size())};
  }
  return fmt::format("{}:{}:{}", target_.prefix, schema_.tables[record.table].name, record.row);
}

/** Tells the script to store the version of a commit that begins a chain, or to check it. */
std::string_view RedisUpload::role_of(const RowRange& part) const {
  const bool alone = part.begin == 0 && part.last;
  if (alone || batch_.commit.after != Version{}) return {};
  return part.begin == 0 ? "first" : "later";
}

void RedisUpload::send(const RowRange& part) {
  const std::string stream = target_.prefix + ":stream";
  const std::string keys = std::to_string(part.end - part.begin + 1);
  std::vector<std::string> rows;
  for (std::size_t i = part.begin; i < part.end; ++i) rows.push_back(key_of(i));

  std::vector<std::string_view> words{"EVALSHA", target_.script, keys, stream};
  words.insert(words.end(), rows.begin(), rows.end());
  words.insert(words.end(), {rank_, after_, version_});
  if (part.last) {
    words.insert(words.end(), {commit_, position_, schema_record_});
  } else {
    words.insert(words.end(), 3, std::string_view{});
  }
  words.push_back(role_of(part));
  for (std::size_t i = part.begin; i < part.end; ++i) words.push_back(text_of(batch_.record(i)));
  target_.connection.send(words);
  ++in_flight_;
}

void RedisUpload::settle() {
  const Reply reply = target_.connection.receive();
  --in_flight_;
  if (!reply->is_integer()) {
    newest_ = reply->text();
    if (newest_.size() != version_.size()) reply->refuse("a text that is not a version");
  } else if (reply->integer() == 0) {
    repeat_ = true;
  } else if (reply->integer() != 1) {
    reply->refuse(fmt::format("{} where 0 or 1 belongs", reply->integer()));
  }
}

}  // namespace millrace::sink
