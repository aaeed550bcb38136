#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/** @brief The part of a changed row that a stream delivers. It delivers values, never differences,
 *         because sums of differences are not exact. */
enum class RowContent {
  ids,                ///< the row number only
  weights,            ///< the weights
  weights_and_state,  ///< the weights and the optimizer state: first moment, then second moment
};
inline constexpr std::array kRowContents{RowContent::ids, RowContent::weights,
                                         RowContent::weights_and_state};
/** @return "ids", "weights" or "weights-and-state" */
[[nodiscard]] std::string_view to_string(RowContent content) noexcept;
/** @throws std::invalid_argument for an unknown name; the message lists the known ones */
[[nodiscard]] RowContent parse_row_content(std::string_view name);

/** @brief One table of a stream. */
struct StreamedTable {
  std::string name;         ///< as in a checkpoint: "table.user"
  std::uint64_t rows = 0;   ///< rows of the whole table, on all ranks together
  std::uint32_t width = 0;  ///< floats of weights for each row
  std::uint32_t state = 0;  ///< floats of optimizer state for each row; 0: not streamed

  friend bool operator==(const StreamedTable&, const StreamedTable&) = default;
};

/** @brief The tables of a stream. Records name a table by its index here. The schema is the same on
 *         all ranks, and never changes for a sink. */
struct StreamSchema {
  RowContent content = RowContent::weights;
  std::vector<StreamedTable> tables;

  friend bool operator==(const StreamSchema&, const StreamSchema&) = default;
};

/** @return one line of JSON. @throws RecordError if a name is not UTF-8 */
[[nodiscard]] std::string to_json(const StreamSchema& schema);
/** @throws RecordError if `json` is not a schema; the message says why */
[[nodiscard]] StreamSchema parse_stream_schema(std::string_view json);
/** @return a description of the first difference, for messages; empty if the schemas are equal */
[[nodiscard]] std::string difference(const StreamSchema& here, const StreamSchema& there);

}  // namespace millrace
