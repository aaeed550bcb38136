#pragma once

#include <string>

namespace millrace::test {

/// Returns `text` as one gzip member.
[[nodiscard]] std::string gzipped(const std::string& text);

}  // namespace millrace::test
