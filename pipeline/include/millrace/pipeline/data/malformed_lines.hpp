#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct MalformedLine {
  std::uint64_t number = 0;  ///< from 1
  std::string reason;
  std::string text;  ///< its beginning
};

/** @brief Lines of a file that were left out because they are not what they should be. */
struct MalformedLines {
  std::uint64_t count = 0;
  std::vector<MalformedLine> first;  ///< a few

  /** @brief "3 malformed lines; line 7: 12 columns, not 40: '1\t2...'"; "" if there are none */
  [[nodiscard]] std::string describe() const;
};

/** @brief How many of them are borne. */
struct MalformedLimit {
  std::uint64_t limit = 100;  ///< one more is a DataError
  std::size_t shown = 5;      ///< are kept, and said in the error
};

}  // namespace millrace
