#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "millrace/pipeline/data/byte_stream.hpp"
#include "millrace/pipeline/data/malformed_lines.hpp"
#include "millrace/pipeline/data/table_source.hpp"

namespace millrace {

struct AdultSettings {
  std::size_t buckets = 64;  ///< of a numeric column, at most
  IndexType value_type = IndexType::int64;
  MalformedLimit malformed;  ///< of each file
  /// In each of the two files: they are held in memory, about a kilobyte for each example.
  std::size_t max_examples = 2'000'000;
};

struct AdultData {
  std::shared_ptr<const ExampleTable> train, test;
  MalformedLines malformed_train, malformed_test;
};

/**
 * @brief UCI Adult (census income): predicts whether a person earns more than 50,000 dollars.
 *
 * Lines of 15 fields with commas between them, spaces around them ignored; empty lines and a first
 * line that begins with | are skipped. The last field is <=50K or >50K, a full stop may follow.
 *
 * The schema follows from the training file alone. 6 dense features: the numeric columns (of fnlwgt
 * and the two of capital log(1 + x)), shifted and scaled to average 0 and deviation 1. 14 sparse
 * features with a table each: the 8 categorical columns, whose row 0 is for what the training file
 * does not have, the others its values in alphabetical order ("?" is one); and the numeric columns
 * in buckets: each distinct value is one, or where there are more than `buckets` of those, each
 * bucket has the same number of them.
 *
 * @throws DataError if a file has no examples, or too many malformed lines; RetriableError if it
 * can not be read; std::invalid_argument for 0 buckets
 */
[[nodiscard]] AdultData read_adult(const ByteSource& train, const ByteSource& test,
                                   const AdultSettings& settings = {});
/** @brief The same, of adult.data and adult.test in a folder. */
[[nodiscard]] AdultData read_adult(const std::filesystem::path& folder,
                                   const AdultSettings& settings = {});

}  // namespace millrace
