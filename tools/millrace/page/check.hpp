#pragma once

#include "page/page_data.hpp"

namespace millrace::cli {

/** @brief Checks what `write_page` promises to refuse. @throws std::invalid_argument */
void check_page(const PageData& data);

}  // namespace millrace::cli
