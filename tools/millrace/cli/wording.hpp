#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::cli {

[[nodiscard]] std::string gib(std::size_t bytes);            ///< "12.34"
[[nodiscard]] std::string mib(std::size_t bytes);            ///< "12.34"
[[nodiscard]] std::string gib_plain(double bytes);           ///< "−1.20", "1.20"
[[nodiscard]] std::string gib_short(double bytes);           ///< "−1.2", "31.9"
[[nodiscard]] std::string gib_change(double bytes);          ///< "−1.20", "+0.00"
[[nodiscard]] std::string milliseconds(double nanoseconds);  ///< "39.13"
[[nodiscard]] std::string percent(double share);             ///< "97%"
[[nodiscard]] std::string grouped(std::uint64_t number);     ///< "1,234,567"
/** @brief "1 free", "2 frees". */
[[nodiscard]] std::string counted(std::uint64_t number, std::string_view noun);

}  // namespace millrace::cli
