#include "millrace/streamer/memory_sink.hpp"

#include "sink/chain.hpp"

namespace millrace {

SinkState MemorySink::state() {
  const std::lock_guard lock{mutex_};
  return state_;
}

void MemorySink::begin(const StreamSchema& schema) {
  const std::lock_guard lock{mutex_};
  sink::check_schema(schema, state_, name());
  state_.schema = schema;
}

void MemorySink::write(const StepBatch& batch, std::string_view position) {
  const std::lock_guard lock{mutex_};
  if (!sink::continues(state_, batch.commit, name())) return;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const RowRecord row = batch.row(i);
    const std::span<const std::byte> record = batch.record(i);
    std::vector<std::byte>& kept = rows_[{row.table, row.row}];
    if (kept.empty() || record_version(kept) < row.version)
      kept.assign(record.begin(), record.end());
  }
  state_.commits[batch.commit.rank] = batch.commit;
  if (!position.empty()) state_.position = position;
}

void MemorySink::read(const std::function<void(const RowRecord&)>& visit) {
  const std::lock_guard lock{mutex_};
  for (const auto& [key, record] : rows_) visit(parse_record(record).row);
}

bool MemorySink::list_rows(const std::function<void(std::uint32_t, std::int64_t)>& visit) {
  const std::lock_guard lock{mutex_};
  for (const auto& [key, record] : rows_) visit(key.first, key.second);
  return true;
}

void MemorySink::forget(std::uint32_t table, std::int64_t row) {
  const std::lock_guard lock{mutex_};
  rows_.erase({table, row});
}

}  // namespace millrace
