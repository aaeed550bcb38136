#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "process/process.hpp"

namespace millrace::interpose {

/** @brief An output of the report. */
struct ReportFile {
  std::FILE* file;
  bool as_json;  ///< JSON with the schema millrace.run/1; false: text
};

/** @brief Writes the program's calls and Millrace's memory to all files. Models run only once.
 *  @param ended_by  cause of an early end of the process; nullptr for a normal end */
void write_report(Process& process, const char* ended_by, const std::vector<ReportFile>& files);
/** @brief Writes a snapshot of all GPUs' memory to a file, atomically. If another process of the
 * job has written the file, it writes FILE.PID instead. @throws std::system_error */
void write_snapshot(const std::string& file, const Process& process);

}  // namespace millrace::interpose
