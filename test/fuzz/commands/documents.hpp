#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "test/fuzz/commands/draws.hpp"

/// @file
/// Hostile files: valid ones with a few mistakes of the kinds that readers get wrong.

namespace millrace::fuzz {

/// A document with values, keys and depths that it should not have, as text.
[[nodiscard]] std::string hostile_json(nlohmann::json document, Draws& draws);
/// The same as a pickle, with opcodes that its writer would not choose.
[[nodiscard]] std::string hostile_pickle(nlohmann::json document, Draws& draws);
/// Lines with fields that are too large, too many, missing or of another kind.
[[nodiscard]] std::string hostile_lines(const std::string& valid, char separator, Draws& draws);
/// Cut short, with bytes that changed, or with a piece twice. Often as it was.
[[nodiscard]] std::string damaged(std::string bytes, Draws& draws);
/// As gzip: of one or more members, damaged, or of very much more than itself.
[[nodiscard]] std::string hostile_gzip(const std::string& bytes, Draws& draws);

}  // namespace millrace::fuzz
