#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Functions that read the values of options. For a wrong value each throws a UsageError that names
/// the option, the given value and the expected values.

namespace millrace::cli {

/** @brief A size of at least one byte: "512", "64KiB", "1.5GB". */
[[nodiscard]] std::size_t read_bytes(std::string_view option, std::string_view text,
                                     std::size_t most);
[[nodiscard]] std::uint64_t read_whole(std::string_view option, std::string_view text,
                                       std::uint64_t least, std::uint64_t most);
[[nodiscard]] double read_number(std::string_view option, std::string_view text, double least,
                                 double most);
/** @brief Reads one of the known names. @param kind  what a name stands for: "allocator" */
[[nodiscard]] std::string read_name(std::string_view option, std::string_view kind,
                                    std::string_view text, const std::vector<std::string>& known);
/** @brief Splits a list at its commas. An item may be empty; the reader of the items refuses it. */
[[nodiscard]] std::vector<std::string_view> split_list(std::string_view text);

/** @brief Reads known names separated by commas, or "all". @return each name once, in `known` order
 */
[[nodiscard]] std::vector<std::string> read_names(std::string_view option, std::string_view kind,
                                                  std::string_view text,
                                                  const std::vector<std::string>& known);

}  // namespace millrace::cli
