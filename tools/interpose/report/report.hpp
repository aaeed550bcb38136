#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "process/process.hpp"

namespace millrace::interpose {

/** @brief A place for the report. */
struct ReportFile {
  std::FILE* file;
  bool as_json;  ///< schema millrace.run/1; false: as text
};

/** @brief Writes what the program did and what Millrace held. What is modeled is modeled once.
 *  @param ended_by  what ended the process, if it did not end as programs do; or nullptr */
void write_report(Process& process, const char* ended_by, const std::vector<ReportFile>& files);
/** @brief Writes the memory of all GPUs to a file, which appears whole or not at all; to FILE.PID
 * if another process of the job has written the file. @throws std::system_error */
void write_snapshot(const std::string& file, const Process& process);

}  // namespace millrace::interpose
