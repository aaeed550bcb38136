#pragma once

#include "explain/explained.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/**
 * @brief The content of an explanation's page: one file, or two files on one axis.
 * @param against  the second file, or nullptr
 */
[[nodiscard]] PageData page_data_of(const ExplainedFile& file, const ExplainedFile* against);

}  // namespace millrace::cli
