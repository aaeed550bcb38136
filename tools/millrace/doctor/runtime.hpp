#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/text.hpp"

namespace millrace::cli {

/** @brief What the virtual CUDA runtime makes of each function of CUDA, for people. */
[[nodiscard]] std::string runtime_text(const Painter& paint);
/** @brief The document `millrace.doctor.runtime/1`; docs/doctor.md has its keys. */
[[nodiscard]] nlohmann::ordered_json runtime_document();

}  // namespace millrace::cli
