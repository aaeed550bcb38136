#include "sink/kafka/read_rows.hpp"

#include <algorithm>

namespace millrace::sink {

std::optional<Record> TopicRows::parse(const TopicMessage& message) {
  record_.assign(message.record.begin(), message.record.end());
  try {
    Record record = parse_record(record_);
    if (record.kind == RecordKind::row && schema_) check_row(record.row, *schema_);
    return record;
  } catch (const RecordError&) {
    return std::nullopt;
  }
}

void TopicRows::find(const TopicMessage& message) {
  const auto record = parse(message);
  if (!record) return;
  if (record->kind == RecordKind::schema) schema_ = record->schema;
  if (record->kind != RecordKind::row) return;
  Version& newest = newest_[key_of(record->row)];
  newest = std::max(newest, record->version);
}

void TopicRows::visit(const TopicMessage& message,
                      const std::function<void(const RowRecord&)>& visit) {
  const auto record = parse(message);
  if (!record || record->kind != RecordKind::row) return;
  const auto found = newest_.find(key_of(record->row));
  if (found == newest_.end() || record->version < found->second) return;
  newest_.erase(found);
  visit(record->row);
}

}  // namespace millrace::sink
