#pragma once

#include <cstdio>
#include <string>

#include "process/process.hpp"

namespace millrace::interpose {

/** @brief Writes what the program did and what Millrace held, as text.
 *  @param ended_by  what ended the process, if it did not end as programs do; or nullptr */
void write_text(std::FILE* file, Process& process, const char* ended_by);
/** @brief The same as JSON, schema millrace.run/1. */
void write_json(std::FILE* file, Process& process, const char* ended_by);
/** @brief Writes the memory of all GPUs to a file, which appears whole or not at all; to FILE.PID
 * if another process of the job has written the file. @throws std::system_error */
void write_snapshot(const std::string& file, const Process& process);

}  // namespace millrace::interpose
