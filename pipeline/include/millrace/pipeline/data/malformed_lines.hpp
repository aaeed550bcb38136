#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/** @brief A line that does not have the expected format. */
struct MalformedLine {
  std::uint64_t number = 0;  ///< line number in the file, from 1
  std::string reason;
  std::string text;  ///< beginning of the line
};

/** @brief The malformed lines of a file, which were skipped. */
struct MalformedLines {
  std::uint64_t count = 0;
  std::vector<MalformedLine> first;  ///< the first few, at most `MalformedLimit::shown`

  /** @brief "3 malformed lines; line 7: 12 columns, not 40: '1\t2...'"; "" if `count` is 0 */
  [[nodiscard]] std::string describe() const;
};

/** @brief How many malformed lines are accepted. */
struct MalformedLimit {
  std::uint64_t limit = 100;  ///< more malformed lines than this are a DataError
  std::size_t shown = 5;      ///< number of lines that are kept and shown in the error
};

}  // namespace millrace
