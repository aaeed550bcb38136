#pragma once

#include <string>
#include <vector>

#include "millrace/observe/ladder.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/** @brief Where the reserved memory of a run went, from level to level. */
[[nodiscard]] PageRows page_ladder(const Ladder& ladder);
/** @brief The same in sentences. */
[[nodiscard]] std::vector<std::string> ladder_sentences(const Ladder& ladder);

}  // namespace millrace::cli
