#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace millrace::apply {

/**
 * @brief The state that a copy stores with its commits: its position in the source, and the ranks
 * whose rows are missing.
 */
struct CopyPosition {
  /**
   * For each rank with a requested snapshot: the request that its commit at that time had answered.
   * A later commit that answers another request follows the beginning of a snapshot.
   */
  std::map<std::uint32_t, std::uint64_t> gaps;
  std::string source;  ///< position in the source's own format

  friend bool operator==(const CopyPosition&, const CopyPosition&) = default;
};

/** @brief Returns text such as "1:0 3:1764000000000 |POSITION" or "|POSITION". */
[[nodiscard]] std::string to_text(const CopyPosition& position);
/** @throws std::invalid_argument if `text` is not a position; "" is the beginning of the source */
[[nodiscard]] CopyPosition parse_position(std::string_view text);

}  // namespace millrace::apply
