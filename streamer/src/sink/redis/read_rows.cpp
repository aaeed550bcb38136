#include "sink/redis/read_rows.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "millrace/text/parse_number.hpp"

namespace millrace::sink {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::string_view kKeysAtATime = "500";

struct StoredRow {
  std::string key;
  std::uint32_t table = 0;
  std::int64_t row = 0;
};

class Reading {
 public:
  Reading(RedisConnection& connection, const std::string& prefix, const StreamSchema& schema)
      : connection_(connection), prefix_(prefix), schema_(schema), seen_(schema.tables.size()) {
    for (std::uint32_t i = 0; i < schema.tables.size(); ++i) tables_[schema.tables[i].name] = i;
  }

  void run(const std::function<void(const RowRecord&)>& visit) {
    scan([&](const ReplyView& keys) { visit_all(rows_among(keys), visit); });
  }
  void list(const std::function<void(std::uint32_t, std::int64_t)>& visit) {
    scan([&](const ReplyView& keys) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (const auto found = row_of(keys[i].text())) visit(found->table, found->row);
      }
    });
  }

 private:
  template <typename Visit>
  void scan(Visit&& visit) {
    const std::string pattern = prefix_ + '*';
    std::string cursor = "0";
    do {
      const auto reply =
          connection_.command(Words{"SCAN", cursor, "MATCH", pattern, "COUNT", kKeysAtATime});
      reply->check_size(2);
      cursor = (*reply)[0].text();
      visit((*reply)[1]);
    } while (cursor != "0");
  }

  /** Returns the rows of these keys, without repeats: a server may list a key more than once. */
  std::vector<StoredRow> rows_among(const ReplyView& keys) {
    std::vector<StoredRow> rows;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto found = row_of(keys[i].text());
      if (found && seen_[found->table].insert(found->row).second) rows.push_back(std::move(*found));
    }
    return rows;
  }

  std::optional<StoredRow> row_of(std::string_view key) const {
    const std::size_t colon = key.rfind(':');
    if (!key.starts_with(prefix_) || colon == std::string_view::npos || colon < prefix_.size())
      return std::nullopt;
    const auto row = text::parse_number<std::int64_t>(key.substr(colon + 1));
    const auto table =
        tables_.find(std::string{key.substr(prefix_.size(), colon - prefix_.size())});
    if (!row || table == tables_.end()) return std::nullopt;
    return StoredRow{.key = std::string{key}, .table = table->second, .row = *row};
  }

  void visit_all(const std::vector<StoredRow>& rows,
                 const std::function<void(const RowRecord&)>& visit) {
    if (rows.empty()) return;
    Words words{"MGET"};
    for (const StoredRow& found : rows) words.push_back(found.key);
    const Reply values = connection_.command(words);
    values->check_size(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const ReplyView value = (*values)[i];
      if (value.is_nil()) {
        check_gone(rows[i]);
      } else {
        visit(parsed(value.bytes(), rows[i]));
      }
    }
  }

  RowRecord parsed(std::span<const std::byte> value, const StoredRow& found) const {
    const Record record = parse_record(value);
    if (record.kind != RecordKind::row || record.bytes != value.size() ||
        record.row.table != found.table || record.row.row != found.row) {
      throw RecordError{fmt::format("{} does not have the record of its row", found.key)};
    }
    check_row(record.row, schema_);
    return record.row;
  }

  /** MGET returns nothing for a key that does not hold a string. */
  void check_gone(const StoredRow& found) {
    const auto reply = connection_.command(Words{"TYPE", found.key});
    const std::string_view type = reply->text();
    if (type == "none" || type == "string") return;  // removed, or written since
    throw RecordError{fmt::format("{} is a {} (expected the string of a row)", found.key, type)};
  }

  RedisConnection& connection_;
  const std::string& prefix_;
  const StreamSchema& schema_;
  std::unordered_map<std::string, std::uint32_t> tables_;
  std::vector<std::unordered_set<std::int64_t>> seen_;  ///< rows of each table
};

}  // namespace

void read_redis_rows(RedisConnection& connection, const std::string& prefix,
                     const StreamSchema& schema,
                     const std::function<void(const RowRecord&)>& visit) {
  Reading{connection, prefix, schema}.run(visit);
}

void list_redis_rows(RedisConnection& connection, const std::string& prefix,
                     const StreamSchema& schema,
                     const std::function<void(std::uint32_t, std::int64_t)>& visit) {
  Reading{connection, prefix, schema}.list(visit);
}

}  // namespace millrace::sink
