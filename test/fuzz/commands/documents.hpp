#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "test/fuzz/commands/draws.hpp"

/// @file
/// Hostile files: valid files with a few errors that readers often handle wrongly.

namespace millrace::fuzz {

/// Returns a document as text, with values, keys and depths that it should not have.
[[nodiscard]] std::string hostile_json(nlohmann::json document, Draws& draws);
/// The same as a pickle, with opcodes that its writer would not choose.
[[nodiscard]] std::string hostile_pickle(nlohmann::json document, Draws& draws);
/// Returns lines with fields that are too large, too many, missing or of another kind.
[[nodiscard]] std::string hostile_lines(const std::string& valid, char separator, Draws& draws);
/// Cuts the bytes short, changes some, or repeats a piece. Often returns them unchanged.
[[nodiscard]] std::string damaged(std::string bytes, Draws& draws);
/// Returns gzip data with one or more members. It may be damaged or expand to much more.
[[nodiscard]] std::string hostile_gzip(const std::string& bytes, Draws& draws);

}  // namespace millrace::fuzz
