#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "millrace/pipeline/data/byte_stream.hpp"
#include "millrace/pipeline/data/malformed_lines.hpp"
#include "millrace/pipeline/data/table_source.hpp"

namespace millrace {

/** @brief How `read_adult` turns columns into features, and its limits. */
struct AdultSettings {
  std::size_t buckets = 64;  ///< maximum number of buckets for a numeric column
  IndexType value_type = IndexType::int64;
  MalformedLimit malformed;  ///< applies to each file separately
  /// Maximum examples in each of the two files. Both files are held in memory, about 1 kB per
  /// example.
  std::size_t max_examples = 2'000'000;
};

/** @brief The two files of the data set, with the schema of the training file. */
struct AdultData {
  std::shared_ptr<const ExampleTable> train, test;
  MalformedLines malformed_train, malformed_test;
};

/**
 * @brief UCI Adult (census income): predicts whether a person earns more than 50,000 dollars.
 *
 * A line has 15 fields, separated by commas; spaces around a field are ignored. Empty lines and a
 * first line that begins with | are skipped. The last field is <=50K or >50K; a full stop may
 * follow it.
 *
 * The schema depends on the training file only.
 * - 6 dense features: the numeric columns, shifted and scaled to mean 0 and standard deviation 1.
 *   fnlwgt and the two capital columns are first mapped to log(1 + x).
 * - 14 sparse features, each with its own table. For the 8 categorical columns, row 0 is for
 *   values that the training file does not have; the other rows are the values of the training
 *   file in alphabetical order ("?" is a value). The 6 numeric columns are divided into buckets:
 *   one for each distinct value or, if a column has more than `buckets` distinct values, `buckets`
 *   buckets with the same number of distinct values.
 *
 * @param train  the text of adult.data
 * @param test   the text of adult.test
 * @throws DataError if a file has no examples or too many malformed lines
 * @throws RetriableError if a file cannot be read
 * @throws std::invalid_argument if `settings.buckets` is 0
 */
[[nodiscard]] AdultData read_adult(const ByteSource& train, const ByteSource& test,
                                   const AdultSettings& settings = {});
/** @brief Reads the files adult.data and adult.test in `folder`. */
[[nodiscard]] AdultData read_adult(const std::filesystem::path& folder,
                                   const AdultSettings& settings = {});

}  // namespace millrace
