#pragma once

#include <map>
#include <string>

namespace millrace::test {

/// Sizes of types, offsets of fields and values of enumerators, by name.
using Layout = std::map<std::string, long long>;

[[nodiscard]] Layout own_layout();
[[nodiscard]] Layout toolkit_layout();

}  // namespace millrace::test
