#pragma once

#include "explain/explained.hpp"
#include "page/page_data.hpp"

namespace millrace::cli {

/** @brief What the page of an explanation shows: one file, or two on one axis.
 *  @param against  the second file, or nullptr */
[[nodiscard]] PageData page_data_of(const ExplainedFile& file, const ExplainedFile* against);

}  // namespace millrace::cli
