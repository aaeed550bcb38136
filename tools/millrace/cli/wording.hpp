#pragma once

#include <cstddef>
#include <string>

namespace millrace::cli {

[[nodiscard]] std::string gib(std::size_t bytes);            ///< "12.34"
[[nodiscard]] std::string mib(std::size_t bytes);            ///< "12.34"
[[nodiscard]] std::string gib_plain(double bytes);           ///< "−1.20", "1.20"
[[nodiscard]] std::string gib_short(double bytes);           ///< "−1.2", "31.9"
[[nodiscard]] std::string gib_change(double bytes);          ///< "−1.20", "+0.00"
[[nodiscard]] std::string milliseconds(double nanoseconds);  ///< "39.13"
[[nodiscard]] std::string percent(double share);             ///< "97%"

}  // namespace millrace::cli
