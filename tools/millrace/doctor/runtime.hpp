#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/text.hpp"

namespace millrace::cli {

/**
 * @brief Text about the virtual CUDA runtime: the capability of each function of CUDA.
 * @param pattern  pattern for function names with * and ?; without these, a part of the name
 * @throws UsageError if no function matches
 */
[[nodiscard]] std::string runtime_text(const Painter& paint, const std::string& pattern);
/** @brief The document `millrace.doctor.runtime/1`. docs/doctor.md lists its keys. */
[[nodiscard]] nlohmann::ordered_json runtime_document(const std::string& pattern);

}  // namespace millrace::cli
