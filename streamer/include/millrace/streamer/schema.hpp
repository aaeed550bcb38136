#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/** @brief What is told of a row that changed. Always values, never differences: those do not add
 *         back exactly. */
enum class RowContent {
  ids,                ///< only that it changed
  weights,            ///< its weights
  weights_and_state,  ///< and what its optimizer keeps: m, then v
};
/** @brief "ids", "weights", "weights-and-state" */
[[nodiscard]] std::string_view to_string(RowContent content) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] RowContent parse_row_content(std::string_view name);

struct StreamedTable {
  std::string name;         ///< as a checkpoint has it: "table.user"
  std::uint64_t rows = 0;   ///< of the whole table, on all ranks
  std::uint32_t width = 0;  ///< floats of a row's weights
  std::uint32_t state = 0;  ///< floats of its optimizer's state; 0 where none is streamed

  friend bool operator==(const StreamedTable&, const StreamedTable&) = default;
};

/** @brief What the numbers of tables in records stand for: the same on all ranks, and for as long
 *         as a sink is there. */
struct StreamSchema {
  RowContent content = RowContent::weights;
  std::vector<StreamedTable> tables;

  friend bool operator==(const StreamSchema&, const StreamSchema&) = default;
};

/** @brief One line of JSON. @throws RecordError for a name that is no UTF-8 */
[[nodiscard]] std::string to_json(const StreamSchema& schema);
/** @throws RecordError that says what is wrong with it */
[[nodiscard]] StreamSchema parse_stream_schema(std::string_view json);
/** @brief The first difference in words, for a message; empty: there is none. */
[[nodiscard]] std::string difference(const StreamSchema& here, const StreamSchema& there);

}  // namespace millrace
