#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace millrace::apply {

/** @brief What a copy keeps beside its marks: where it is in the source, and of which ranks it
 * lacks something. */
struct CopyPosition {
  std::set<std::uint32_t> gaps;  ///< ranks; those that are asked for a snapshot
  std::string source;            ///< as the source gave it

  friend bool operator==(const CopyPosition&, const CopyPosition&) = default;
};

/** @brief "1 3|POSITION", "|POSITION" */
[[nodiscard]] std::string to_text(const CopyPosition& position);
/** @throws std::invalid_argument if it is none; "" is the beginning */
[[nodiscard]] CopyPosition parse_position(std::string_view text);

}  // namespace millrace::apply
