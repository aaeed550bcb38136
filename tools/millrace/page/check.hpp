#pragma once

#include "page/page_data.hpp"

namespace millrace::cli {

/** @brief Checks the conditions of `write_page`. @throws std::invalid_argument */
void check_page(const PageData& data);

}  // namespace millrace::cli
