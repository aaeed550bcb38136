#include "millrace/pipeline/data/adult.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/line_reader.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace {
namespace {

struct Column {
  std::string_view name;
  bool numeric = false;
  bool logarithm = false;  ///< the dense feature is the logarithm
};

constexpr std::array<Column, 14> kColumns{{{"age", true},
                                           {"workclass"},
                                           {"fnlwgt", true, true},
                                           {"education"},
                                           {"education-num", true},
                                           {"marital-status"},
                                           {"occupation"},
                                           {"relationship"},
                                           {"race"},
                                           {"sex"},
                                           {"capital-gain", true, true},
                                           {"capital-loss", true, true},
                                           {"hours-per-week", true},
                                           {"native-country"}}};
constexpr std::size_t kFields = kColumns.size() + 1;

struct Row {
  std::array<double, kColumns.size()> numbers{};   ///< values of the numeric columns
  std::array<std::string, kColumns.size()> words;  ///< values of the other columns
  float label = 0;
};

struct File {
  std::vector<Row> rows;
  MalformedLines malformed;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = line.find(',');
    fields.push_back(trimmed(line.substr(0, comma)));
    if (comma != std::string_view::npos) line.remove_prefix(comma + 1);
  }
  return fields;
}

/** Fills `row`. @return why the line is malformed; "" if it is not */
std::string parse(std::string_view line, Row& row) {
  const std::vector<std::string_view> fields = fields_of(line);
  if (fields.size() != kFields) return fmt::format("{} fields, not {}", fields.size(), kFields);
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const std::string_view field = fields[i];
    if (field.empty()) return fmt::format("{} is empty", kColumns[i].name);
    if (!kColumns[i].numeric) {
      row.words[i] = field;
      continue;
    }
    const auto number = text::parse_number<std::uint32_t>(field);
    if (!number) return fmt::format("{} is not a whole number", kColumns[i].name);
    row.numbers[i] = *number;
  }
  std::string_view label = fields.back();
  // The test file ends each label with a period.
  if (label.ends_with('.')) label.remove_suffix(1);
  if (label != "<=50K" && label != ">50K") return "the income is neither <=50K nor >50K";
  row.label = label == ">50K" ? 1.0F : 0.0F;
  return {};
}

File read_rows(const ByteSource& source, const AdultSettings& settings) {
  LineReader lines{source};
  MalformedCounter malformed{source.name, settings.malformed};
  File file;
  while (const auto line = lines.next()) {
    // The first line of the test file is a remark that begins with '|'.
    if (trimmed(*line).empty() || (lines.number() == 1 && line->starts_with('|'))) continue;
    Row row;
    std::string problem = lines.too_long() ? "it is too long" : parse(*line, row);
    if (problem.empty()) {
      if (file.rows.size() == settings.max_examples) {
        throw DataError{fmt::format("{} has more than the {} examples that are read of this format",
                                    source.name, settings.max_examples)};
      }
      file.rows.push_back(std::move(row));
    } else {
      malformed.add(lines.number(), std::move(problem), *line);
    }
  }
  file.malformed = malformed.lines();
  if (file.rows.empty()) {
    const std::string found = file.malformed.describe();
    throw DataError{
        fmt::format("{} has no examples{}{}", source.name, found.empty() ? "" : "; ", found)};
  }
  return file;
}

/** The encoding of a column, which depends on the training file only. */
class Encoding {
 public:
  Encoding(std::size_t column, const std::vector<Row>& rows, std::size_t buckets)
      : column_(column) {
    if (kColumns[column].numeric) {
      find_scale(rows);
      find_buckets(rows, buckets);
    } else {
      std::set<std::string_view> words;
      for (const Row& row : rows) words.insert(row.words[column]);
      for (const std::string_view word : words) {
        // From 1: id 0 is for words that only the test file has.
        vocabulary_.emplace(word, static_cast<std::int64_t>(vocabulary_.size()) + 1);
      }
    }
  }

  [[nodiscard]] std::size_t table_rows() const {
    return kColumns[column_].numeric ? begins_.size() : vocabulary_.size() + 1;
  }

  [[nodiscard]] std::int64_t id(const Row& row) const {
    if (!kColumns[column_].numeric) {
      const auto known = vocabulary_.find(row.words[column_]);
      return known == vocabulary_.end() ? 0 : known->second;
    }
    // The first number is skipped, because numbers below it also belong to its bucket.
    const auto above = std::upper_bound(begins_.begin() + 1, begins_.end(), row.numbers[column_]);
    return above - begins_.begin() - 1;
  }

  [[nodiscard]] float dense(const Row& row) const {
    return static_cast<float>((scaled(row) - average_) / deviation_);
  }

 private:
  [[nodiscard]] double scaled(const Row& row) const {
    const double number = row.numbers[column_];
    return kColumns[column_].logarithm ? std::log1p(number) : number;
  }

  void find_scale(const std::vector<Row>& rows) {
    double sum = 0, squares = 0;
    for (const Row& row : rows) sum += scaled(row);
    average_ = sum / static_cast<double>(rows.size());
    for (const Row& row : rows) squares += (scaled(row) - average_) * (scaled(row) - average_);
    const double deviation = std::sqrt(squares / static_cast<double>(rows.size()));
    deviation_ = deviation > 0 ? deviation : 1;
  }

  void find_buckets(const std::vector<Row>& rows, std::size_t buckets) {
    std::set<double> numbers;
    for (const Row& row : rows) numbers.insert(row.numbers[column_]);
    const std::vector<double> distinct(numbers.begin(), numbers.end());
    const std::size_t count = std::min(buckets, distinct.size());
    for (std::size_t i = 0; i < count; ++i)
      begins_.push_back(distinct[i * distinct.size() / count]);
  }

  std::size_t column_;
  std::map<std::string, std::int64_t, std::less<>> vocabulary_;
  /** The least number of each bucket; the first bucket also has all smaller numbers. */
  std::vector<double> begins_;
  double average_ = 0, deviation_ = 1;
};

InputSchema schema_of(const std::vector<Encoding>& encodings, IndexType value_type) {
  InputSchema schema{.value_type = value_type};
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const std::string name{kColumns[i].name};
    if (kColumns[i].numeric) schema.dense.push_back(name);
    schema.sparse.push_back({name, name, encodings[i].table_rows()});
  }
  return schema;
}

std::shared_ptr<const ExampleTable> encode(const std::vector<Row>& rows,
                                           const std::vector<Encoding>& encodings,
                                           const InputSchema& schema) {
  ExampleTable table{.schema = schema};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      if (kColumns[i].numeric) table.dense.push_back(encodings[i].dense(row));
      table.ids.push_back(encodings[i].id(row));
    }
    table.labels.push_back(row.label);
  }
  return std::make_shared<const ExampleTable>(std::move(table));
}

}  // namespace

AdultData read_adult(const ByteSource& train, const ByteSource& test,
                     const AdultSettings& settings) {
  if (settings.buckets == 0)
    throw std::invalid_argument{"a numeric column has at least one bucket"};
  File train_file = read_rows(train, settings);
  File test_file = read_rows(test, settings);
  std::vector<Encoding> encodings;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    // Only from the training file: the test data must not influence how they are encoded.
    encodings.emplace_back(i, train_file.rows, settings.buckets);
  }
  const InputSchema schema = schema_of(encodings, settings.value_type);
  return {.train = encode(train_file.rows, encodings, schema),
          .test = encode(test_file.rows, encodings, schema),
          .malformed_train = std::move(train_file.malformed),
          .malformed_test = std::move(test_file.malformed)};
}

AdultData read_adult(const std::filesystem::path& folder, const AdultSettings& settings) {
  return read_adult(file_source(folder / "adult.data"), file_source(folder / "adult.test"),
                    settings);
}

}  // namespace millrace
