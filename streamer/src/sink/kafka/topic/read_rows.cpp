#include "sink/kafka/topic/read_rows.hpp"

#include <algorithm>

namespace millrace::sink {

void TopicRows::find(const TopicMessage& message) {
  const auto record = reader_.read(message);
  if (!record) return;
  if (record->kind == RecordKind::schema) schema_ = record->schema;
  if (record->kind != RecordKind::row || !is_of_schema(record->row)) return;
  Version& newest = newest_[key_of(record->row)];
  newest = std::max(newest, record->version);
}

void TopicRows::visit(const TopicMessage& message,
                      const std::function<void(const RowRecord&)>& visit) {
  const auto record = reader_.read(message);
  if (!record || record->kind != RecordKind::row) return;
  const auto found = newest_.find(key_of(record->row));
  if (found == newest_.end() || record->version < found->second) return;
  newest_.erase(found);
  if (is_of_schema(record->row)) visit(record->row);
}

bool TopicRows::is_of_schema(const RowRecord& row) const {
  if (!schema_) return true;  // the schema follows
  try {
    check_row(row, *schema_);
    return true;
  } catch (const RecordError&) {
    return false;
  }
}

}  // namespace millrace::sink
