#include "sink/kafka/read_rows.hpp"

namespace millrace::sink {

void TopicRows::add(const TopicMessage& message) {
  record_.assign(message.record.begin(), message.record.end());
  Record record;
  try {
    record = parse_record(record_);
  } catch (const RecordError&) {
    return;  // what somebody else wrote
  }
  if (record.kind == RecordKind::schema) schema_ = record.schema;
  if (record.kind != RecordKind::row) return;
  std::vector<std::byte>& kept = records_[{record.row.table, record.row.row}];
  if (kept.empty() || record_version(kept) < record.version) kept = record_;
}

void TopicRows::visit(const std::function<void(const RowRecord&)>& visit) const {
  for (const auto& [key, bytes] : records_) {
    const Record record = parse_record(bytes);
    if (schema_) check_row(record.row, *schema_);
    visit(record.row);
  }
}

}  // namespace millrace::sink
