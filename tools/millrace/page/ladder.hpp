#pragma once

#include <string>
#include <vector>

#include "millrace/observe/ladder.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/** @brief The reserved memory of a run, from level to level of the ladder. */
[[nodiscard]] PageRows page_ladder(const Ladder& ladder);
/** @brief The ladder in sentences. */
[[nodiscard]] std::vector<std::string> ladder_sentences(const Ladder& ladder);

}  // namespace millrace::cli
