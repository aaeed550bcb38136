#include "process/settings.hpp"

#include <unistd.h>

#include <cstdlib>

#include "runtime/real.hpp"

namespace millrace::interpose {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/** Whether the variable has its only valid value. */
bool is_set(const char* name, const char* value) {
  const std::string found = variable(name);
  if (found.empty() || found == value) return !found.empty();
  warn_once((std::string{name} + ": '" + found + "' is not known; it is '" + value + "' or empty")
                .c_str());
  return false;
}

}  // namespace

std::string of_this_process(std::string name) {
  for (std::size_t at = name.find("%p"); at != std::string::npos; at = name.find("%p", at))
    name.replace(at, 2, std::to_string(getpid()));
  return name;
}

Settings Settings::read() {
  Settings settings;
  settings.report = variable("MILLRACE_RUN_REPORT");
  settings.json = variable("MILLRACE_RUN_JSON");
  settings.leaves_malloc = is_set("MILLRACE_RUN_LEAVE", "cudaMalloc");
  settings.waits = is_set("MILLRACE_RUN_POLICY", "millrace");
  settings.record = variable("MILLRACE_RUN_RECORD");
  settings.snapshot = variable("MILLRACE_RUN_SNAPSHOT");
  settings.what_if = is_set("MILLRACE_RUN_WHAT_IF", "1") || !settings.record.empty();
  return settings;
}

}  // namespace millrace::interpose
