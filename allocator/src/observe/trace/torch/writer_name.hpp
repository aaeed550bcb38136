#pragma once

#include <string_view>

namespace millrace::trace {

/// The value of the key `writer` in a snapshot that Millrace wrote. PyTorch has no such key, and
/// its tools ignore it.
inline constexpr std::string_view kMillraceWriter = "millrace";

}  // namespace millrace::trace
