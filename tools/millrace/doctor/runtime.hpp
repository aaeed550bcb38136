#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/text.hpp"

namespace millrace::cli {

/**
 * @brief What the virtual CUDA runtime makes of each function of CUDA, for people.
 * @param pattern  of the functions' names, with * and ?; a part of a name without these
 * @throws UsageError if no function has such a name
 */
[[nodiscard]] std::string runtime_text(const Painter& paint, const std::string& pattern);
/** @brief The document `millrace.doctor.runtime/1`; docs/doctor.md has its keys. */
[[nodiscard]] nlohmann::ordered_json runtime_document(const std::string& pattern);

}  // namespace millrace::cli
