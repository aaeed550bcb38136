#include "sink/redis/redis_sink.hpp"

#include <fmt/format.h>

#include <vector>

#include "millrace/text/parse_number.hpp"
#include "sink/chain.hpp"
#include "sink/kinds.hpp"
#include "sink/redis/read_rows.hpp"
#include "sink/redis/script.hpp"
#include "sink/redis/upload.hpp"

namespace millrace::sink {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::string_view kCommitField = "mark:";

Record record_in(std::string_view field, const ReplyView& value, RecordKind kind) {
  Record record = parse_record(value.bytes());
  if (record.kind == kind && record.bytes == value.bytes().size()) return record;
  throw RecordError{fmt::format("its field {} has a record of another kind or size", field)};
}

void add_field(SinkState& state, std::string_view field, const ReplyView& value) {
  if (field == "schema") {
    state.schema = record_in(field, value, RecordKind::schema).schema;
  } else if (field == "position") {
    state.position = value.text();
  } else if (field.starts_with(kCommitField)) {
    const StepCommit commit = record_in(field, value, RecordKind::commit).commit;
    if (field.substr(kCommitField.size()) != std::to_string(commit.rank)) {
      throw RecordError{fmt::format("its field {} has the commit of rank {}", field, commit.rank)};
    }
    state.commits[commit.rank] = commit;
  }
}

}  // namespace

RedisSink::RedisSink(std::string_view spec, const RedisLimits& limits)
    : name_(redacted(spec)), address_(parse_redis_address(spec)), limits_(limits) {}

std::string RedisSink::key(std::string_view rest) const {
  return fmt::format("{}:{}", address_.prefix, rest);
}

void RedisSink::ensure_connected() {
  if (connection_) return;
  connection_.emplace(address_, RedisManners{limits_, finish_by_}, name_);
  script_.clear();
}

// The server may have closed an idle connection, so a reused connection is replaced once.
template <typename Body>
auto RedisSink::talk(Body&& body) {
  const bool reused = connection_.has_value();
  try {
    try {
      ensure_connected();
      return body(*connection_);
    } catch (const ConnectionBroke&) {
      connection_.reset();
      if (!reused) throw;
      ensure_connected();
      return body(*connection_);
    }
  } catch (...) {
    connection_.reset();
    throw;
  }
}

SinkState RedisSink::fetch_state() {
  const Reply reply = connection_->command(Words{"HGETALL", key("stream")});
  SinkState state;
  try {
    for (std::size_t i = 0; i < reply->size(); i += 2) {
      add_field(state, (*reply)[i].text(), (*reply)[i + 1]);
    }
  } catch (const RecordError& error) {
    throw SinkError{SinkError::Kind::wrong, fmt::format("{}: {} was not written by Millrace: {}",
                                                        name_, key("stream"), error.what())};
  }
  return state;
}

SinkState RedisSink::state() {
  const std::lock_guard lock{mutex_};
  return talk([&](RedisConnection&) { return fetch_state(); });
}

void RedisSink::begin(const StreamSchema& schema) {
  const std::lock_guard lock{mutex_};
  std::vector<std::byte> record;
  append_record(record, schema, Version{});
  talk([&](RedisConnection& connection) {
    // If several ranks begin at once, the first schema stays.
    (void)connection.command(Words{"HSETNX", key("stream"), "schema", text_of(record)})->integer();
    check_schema(schema, fetch_state(), name_);
  });
  schema_ = schema;
}

void RedisSink::write(const StepBatch& batch, std::string_view position) {
  const std::lock_guard lock{mutex_};
  if (!schema_) {
    schema_ = talk([&](RedisConnection&) { return fetch_state(); }).schema;
    if (!schema_) {
      throw SinkError{SinkError::Kind::lost, fmt::format("{}: it has no schema", name_)};
    }
  }
  talk([&](RedisConnection& connection) {
    // The text of the script is sent once for each connection, later its digest.
    if (script_.empty()) script_ = connection.load_script(kWriteScript);
    const RedisTarget target{connection, script_, address_.prefix, name_, limits_};
    RedisUpload{target, *schema_, batch, position}.run();
  });
}

void RedisSink::read(const std::function<void(const RowRecord&)>& visit) {
  const std::lock_guard lock{mutex_};
  const SinkState state = talk([&](RedisConnection&) { return fetch_state(); });
  if (!state.schema) return;
  try {
    // Not repeated on a new connection, which would visit rows twice.
    read_redis_rows(*connection_, key(""), *state.schema, visit);
  } catch (...) {
    connection_.reset();
    throw;
  }
}

void RedisSink::audit(std::uint32_t, std::uint64_t epoch) {
  const std::lock_guard lock{mutex_};
  talk([&](RedisConnection& connection) {
    connection.refuse_eviction();  // the policy may have changed since the connection was made
    const std::uint64_t there = fetch_state().newest_epoch();
    if (there > epoch) refuse_overtaken(there, epoch, name_);
  });
}

bool RedisSink::list_rows(const std::function<void(std::uint32_t, std::int64_t)>& visit) {
  const std::lock_guard lock{mutex_};
  talk([&](RedisConnection& connection) {
    const SinkState state = fetch_state();
    if (state.schema) list_redis_rows(connection, key(""), *state.schema, visit);
  });
  return true;
}

std::uint64_t RedisSink::snapshot_request() {
  const std::lock_guard lock{mutex_};
  return talk([&](RedisConnection& connection) -> std::uint64_t {
    const Reply reply = connection.command(Words{"GET", key("snapshot")});
    if (reply->is_nil()) return 0;
    if (const auto number = text::parse_number<std::uint64_t>(reply->text())) return *number;
    throw SinkError{SinkError::Kind::wrong, fmt::format("{}: {} has '{}' (expected a number)",
                                                        name_, key("snapshot"), reply->text())};
  });
}

std::unique_ptr<Sink> open_redis_sink(std::string_view spec) {
  return std::make_unique<RedisSink>(spec);
}

}  // namespace millrace::sink
