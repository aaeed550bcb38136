#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace millrace::apply {

/** @brief What a copy keeps beside its commits: where it is in the source, and of which ranks it
 * lacks something. */
struct CopyPosition {
  /** Of ranks that are asked for a snapshot: which request the commit answers at which it was asked
   *  for. A later commit that answers another one is behind the beginning of a snapshot. */
  std::map<std::uint32_t, std::uint64_t> gaps;
  std::string source;  ///< as the source gave it

  friend bool operator==(const CopyPosition&, const CopyPosition&) = default;
};

/** @brief "1:0 3:1764000000000 |POSITION", "|POSITION" */
[[nodiscard]] std::string to_text(const CopyPosition& position);
/** @throws std::invalid_argument if it is none; "" is the beginning */
[[nodiscard]] CopyPosition parse_position(std::string_view text);

}  // namespace millrace::apply
