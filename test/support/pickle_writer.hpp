#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace millrace::test {

/// Pickles plain data as Python's protocol 2 does, without the memo: null, booleans, integers,
/// floats, strings, arrays (as lists) and objects.
[[nodiscard]] std::string to_pickle(const nlohmann::json& data);

/// The same value without PROTO and STOP, for use in hand-made pickles.
[[nodiscard]] std::string to_pickle_body(const nlohmann::json& data);

}  // namespace millrace::test
