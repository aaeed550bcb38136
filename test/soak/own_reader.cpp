#include "soak/own_reader.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#ifdef MILLRACE_SOAK_KAFKA
#include <librdkafka/rdkafka.h>
#endif
#ifdef MILLRACE_SOAK_ROCKSDB
#include <rocksdb/db.h>
#endif

namespace millrace::soak {
namespace {

constexpr std::size_t kHeader = 48, kChecksum = 8;

template <typename T>
T little(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::uint64_t big(const std::string& bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

std::string contents_of(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in) throw std::runtime_error{"cannot read " + file.string()};
  return {std::istreambuf_iterator<char>{in}, {}};
}

std::vector<std::string> add_schema(OwnCopy& copy, const std::string& json) {
  std::vector<std::string> names;
  const auto schema = nlohmann::json::parse(json);
  for (const auto& table : schema.at("tables")) {
    names.push_back(table.at("name").get<std::string>());
    copy.expected[names.back()] = table.at("rows").get<std::int64_t>();
  }
  return names;
}

/// Returns the record that begins at `at` in `bytes`.
OwnRow row_at(const std::string& bytes, std::size_t at) {
  OwnRow row{.epoch = big(bytes, at), .step = big(bytes, at + 8), .numbers = {}};
  row.numbers.resize(little<std::uint32_t>(bytes, at + 28));
  std::memcpy(row.numbers.data(), bytes.data() + at + kHeader, row.numbers.size() * sizeof(float));
  return row;
}

void keep_newest(OwnCopy& copy, const std::string& table, std::int64_t number, OwnRow row) {
  OwnRow& kept = copy.rows[table][number];
  const bool newer = row.epoch != kept.epoch ? row.epoch > kept.epoch : row.step >= kept.step;
  if (newer) kept = std::move(row);
}

/// Reads a segment. Rows count only if the commit after them is complete.
void read_segment(OwnCopy& copy, const std::vector<std::string>& tables, const std::string& bytes) {
  struct Waiting {
    std::string table;
    std::int64_t number;
    OwnRow row;
  };
  std::vector<Waiting> waiting;
  for (std::size_t at = 0; at + kHeader + kChecksum <= bytes.size();) {
    const std::size_t length = little<std::uint32_t>(bytes, at + 16);
    if (length < kHeader + kChecksum || length > bytes.size() - at) return;  // an incomplete record
    const auto kind = static_cast<unsigned char>(bytes[at + 20]);
    if (kind == 1) {
      waiting.push_back({tables.at(little<std::uint32_t>(bytes, at + 24)),
                         little<std::int64_t>(bytes, at + 40), row_at(bytes, at)});
    } else if (kind == 2) {
      for (Waiting& row : waiting) keep_newest(copy, row.table, row.number, std::move(row.row));
      waiting.clear();
    }
    at += length;
  }
}

/// Keeps a row whose key is the table's name, a zero byte, and the row number in eight bytes.
void keep_keyed(OwnCopy& copy, const std::string& key, const std::string& record) {
  const std::size_t name = key.size() - 9;
  keep_newest(copy, key.substr(0, name), static_cast<std::int64_t>(big(key, name + 1)),
              row_at(record, 0));
}

/// Adds the tables of a schema record.
void add_schema_record(OwnCopy& copy, const std::string& record) {
  static_cast<void>(
      add_schema(copy, record.substr(kHeader, record.find_last_of('}') + 1 - kHeader)));
}

#ifdef MILLRACE_SOAK_KAFKA
using Kafka = std::unique_ptr<rd_kafka_t, void (*)(rd_kafka_t*)>;
using Partitions =
    std::unique_ptr<rd_kafka_topic_partition_list_t, void (*)(rd_kafka_topic_partition_list_t*)>;

void require(rd_kafka_resp_err_t error) {
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error{rd_kafka_err2str(error)};
}

Kafka open_kafka(const std::string& brokers) {
  rd_kafka_conf_t* const settings = rd_kafka_conf_new();
  char why[256] = "";
  for (const auto& [key, value] :
       {std::pair<const char*, const char*>{"enable.partition.eof", "true"},
        {"group.id", "own reader"},
        {"enable.auto.commit", "false"},
        {"bootstrap.servers", brokers.c_str()}}) {
    if (rd_kafka_conf_set(settings, key, value, why, sizeof why) != RD_KAFKA_CONF_OK) {
      throw std::runtime_error{why};
    }
  }
  Kafka kafka{rd_kafka_new(RD_KAFKA_CONSUMER, settings, why, sizeof why), rd_kafka_destroy};
  if (kafka == nullptr) throw std::runtime_error{why};
  return kafka;
}

/// Returns all partitions of a topic from their beginnings, or none if the topic does not exist.
Partitions partitions_of(rd_kafka_t* kafka, const std::string& topic) {
  constexpr int kPatience = 10'000;
  const rd_kafka_metadata_t* metadata = nullptr;
  require(rd_kafka_metadata(kafka, 1, nullptr, &metadata, kPatience));
  Partitions all{rd_kafka_topic_partition_list_new(1), rd_kafka_topic_partition_list_destroy};
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    if (topic != metadata->topics[i].topic) continue;
    for (int part = 0; part < metadata->topics[i].partition_cnt; ++part) {
      rd_kafka_topic_partition_list_add(all.get(), topic.c_str(), part)->offset =
          RD_KAFKA_OFFSET_BEGINNING;
    }
  }
  rd_kafka_metadata_destroy(metadata);
  return all;
}

void add_message(OwnCopy& copy, const rd_kafka_message_t& message) {
  const std::string key{static_cast<const char*>(message.key), message.key_len};
  const std::string record{static_cast<const char*>(message.payload), message.len};
  if (key == std::string{"\0schema", 7}) {
    copy.expected.clear();
    add_schema_record(copy, record);
  } else if (key.front() != '\0') {
    keep_keyed(copy, key, record);
  }
}
#endif

/// Reads one bulk string or nil of a reply at `at`, and moves `at` past it.
bool next_bulk(const std::string& reply, std::size_t& at, std::string& text) {
  const std::size_t end = reply.find("\r\n", at);
  if (end == std::string::npos || reply[at] != '$') throw std::runtime_error{"no bulk string"};
  const long length = std::stol(reply.substr(at + 1, end - at - 1));
  at = end + 2;
  if (length < 0) return false;
  text = reply.substr(at, static_cast<std::size_t>(length));
  at += static_cast<std::size_t>(length) + 2;
  return true;
}

}  // namespace

OwnCopy read_folder(const std::filesystem::path& folder) {
  OwnCopy copy;
  if (!std::filesystem::exists(folder / "schema.json")) return copy;
  const std::vector<std::string> tables = add_schema(copy, contents_of(folder / "schema.json"));
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".segment" && extension != ".compacted") continue;
    read_segment(copy, tables, contents_of(entry.path()));
  }
  return copy;
}

OwnCopy read_rocksdb([[maybe_unused]] const std::filesystem::path& folder) {
  OwnCopy copy;
#ifdef MILLRACE_SOAK_ROCKSDB
  if (!std::filesystem::exists(folder / "CURRENT")) return copy;
  std::vector<std::string> families;
  const bool listed = rocksdb::DB::ListColumnFamilies({}, folder.string(), &families).ok();
  // The writer was killed after it created the database and before it created the family, so the
  // database is empty.
  if (listed && std::ranges::find(families, "stream") == families.end()) return copy;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(
      {}, folder.string(), {{rocksdb::kDefaultColumnFamilyName, {}}, {"stream", {}}}, &handles,
      &opened);
  if (!status.ok()) throw std::runtime_error{status.ToString()};
  const std::unique_ptr<rocksdb::DB> db{opened};
  std::string schema;
  if (db->Get({}, handles[1], "schema", &schema).ok()) {
    static_cast<void>(add_schema(copy, schema));
    const std::unique_ptr<rocksdb::Iterator> rows{db->NewIterator({}, handles[0])};
    for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
      keep_keyed(copy, rows->key().ToString(), rows->value().ToString());
    }
  }
  for (auto* const handle : handles) static_cast<void>(db->DestroyColumnFamilyHandle(handle));
#endif
  return copy;
}

OwnCopy read_redis(const std::function<std::string(const std::vector<std::string>&)>& ask,
                   const std::string& prefix) {
  constexpr std::int64_t kAtOnce = 500;
  OwnCopy copy;
  std::size_t at = 0;
  std::string schema;
  if (!next_bulk(ask({"HGET", prefix + ":stream", "schema"}), at, schema)) return copy;
  add_schema_record(copy, schema);
  for (const auto& [table, rows] : copy.expected) {
    for (std::int64_t first = 0; first < rows; first += kAtOnce) {
      const std::int64_t end = std::min(rows, first + kAtOnce);
      std::vector<std::string> words{"MGET"};
      for (std::int64_t row = first; row < end; ++row) {
        words.push_back(prefix + ':' + table + ':' + std::to_string(row));
      }
      const std::string reply = ask(words);
      at = reply.find("\r\n") + 2;
      std::string record;
      for (std::int64_t row = first; row < end; ++row) {
        if (next_bulk(reply, at, record)) keep_newest(copy, table, row, row_at(record, 0));
      }
    }
  }
  return copy;
}

OwnCopy read_kafka([[maybe_unused]] const std::string& brokers,
                   [[maybe_unused]] const std::string& topic) {
  OwnCopy copy;
#ifdef MILLRACE_SOAK_KAFKA
  constexpr int kPatience = 20'000;
  const Kafka kafka = open_kafka(brokers);
  const Partitions all = partitions_of(kafka.get(), topic);
  require(rd_kafka_assign(kafka.get(), all.get()));
  for (int left = all->cnt; left > 0;) {
    const std::unique_ptr<rd_kafka_message_t, void (*)(rd_kafka_message_t*)> message{
        rd_kafka_consumer_poll(kafka.get(), kPatience), rd_kafka_message_destroy};
    if (message == nullptr) throw std::runtime_error{"the own reader gets nothing of the topic"};
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      --left;
      continue;
    }
    require(message->err);
    add_message(copy, *message);
  }
  require(rd_kafka_consumer_close(kafka.get()));
#endif
  return copy;
}

OwnComparison compare(const OwnCopy& copy, const std::filesystem::path& checkpoint) {
  const std::string bytes = contents_of(checkpoint);
  const auto header_bytes = little<std::uint64_t>(bytes, 16);
  const auto document = nlohmann::json::parse(bytes.substr(40, header_bytes));
  std::size_t at = 40 + header_bytes;
  OwnComparison result;
  for (const auto& tensor : document.at("tensors")) {
    const auto name = tensor.at("name").get<std::string>();
    const auto floats = tensor.at("size").get<std::size_t>();
    const std::string table = name.substr(0, name.rfind('.'));
    if (name.ends_with(".weights") && copy.expected.contains(table)) {
      const std::int64_t rows = copy.expected.at(table);
      const std::size_t width = floats / static_cast<std::size_t>(rows);
      const auto known = copy.rows.find(table);
      for (std::int64_t row = 0; row < rows; ++row) {
        ++result.rows;
        const char* const expected =
            bytes.data() + at + static_cast<std::size_t>(row) * width * sizeof(float);
        if (known == copy.rows.end() || !known->second.contains(row)) {
          ++result.absent;
          continue;
        }
        const std::vector<float>& numbers = known->second.at(row).numbers;
        const bool same = numbers.size() == width &&
                          std::memcmp(numbers.data(), expected, width * sizeof(float)) == 0;
        ++(same ? result.equal : result.unequal);
      }
    }
    at += floats * sizeof(float) + 8;  // skips the hash
  }
  return result;
}

}  // namespace millrace::soak
