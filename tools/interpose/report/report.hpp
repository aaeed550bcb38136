#pragma once

#include <cstdio>

#include "process/process.hpp"

namespace millrace::interpose {

/** @brief Writes what the program did and what Millrace held, as text. */
void write_text(std::FILE* file, Process& process);
/** @brief The same as JSON, schema millrace.run/1. */
void write_json(std::FILE* file, Process& process);

}  // namespace millrace::interpose
