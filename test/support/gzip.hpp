#pragma once

#include <string>

namespace millrace::test {

/// `text` as one member of gzip.
[[nodiscard]] std::string gzipped(const std::string& text);

}  // namespace millrace::test
