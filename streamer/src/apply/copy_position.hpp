#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace millrace::apply {

/** @brief The state that a copy keeps beside its commits: its position in the source, and the ranks
 * of which rows are missing. */
struct CopyPosition {
  /** For ranks with a requested snapshot: the request that the commit at that time had answered. A
   *  later commit that answers another request follows the beginning of a snapshot. */
  std::map<std::uint32_t, std::uint64_t> gaps;
  std::string source;  ///< as the source gave it

  friend bool operator==(const CopyPosition&, const CopyPosition&) = default;
};

/** @brief "1:0 3:1764000000000 |POSITION", "|POSITION" */
[[nodiscard]] std::string to_text(const CopyPosition& position);
/** @throws std::invalid_argument if it is none; "" is the beginning */
[[nodiscard]] CopyPosition parse_position(std::string_view text);

}  // namespace millrace::apply
