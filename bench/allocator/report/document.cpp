#include "allocator/report/document.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "allocator/subjects/subject.hpp"

namespace millrace::bench {
namespace {

std::string cpu_name() {
  std::ifstream info{"/proc/cpuinfo"};
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 < line.size()) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "unknown" : value;
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}

nlohmann::ordered_json head(const Setting& setting, const std::string& command) {
  nlohmann::ordered_json seeds = nlohmann::ordered_json::array();
  for (unsigned i = 0; i < setting.scale.repetitions; ++i) seeds.push_back(setting.seed + i);
  return {
      {"schema", "millrace.bench-allocator/1"},
      {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))},
      {"device", setting.gpu ? cuda_machine_title(*setting.gpu) : "calls return at once"},
      {"cpu", cpu_name()},
      {"cores", std::thread::hardware_concurrency()},
      {"commit", environment("MILLRACE_COMMIT")},
      {"compiler", compiler()},
#ifdef NDEBUG
      {"assertions", false},
#else
      {"assertions", true},
#endif
      {"command", command},
      {"scale", setting.scale.name},
      {"seeds", seeds},
      {"clock", "CPU time of the thread; wall_ns_per_pair is elapsed time"},
  };
}

/// Writes one line for each field, and for each row of a list, so that later runs differ in few
/// lines.
void write_lines(const nlohmann::ordered_json& document, std::ostream& out) {
  const char* before = "{\n";
  for (const auto& [key, value] : document.items()) {
    out << before << nlohmann::ordered_json(key).dump() << ": ";
    before = ",\n";
    if (!value.is_array() || value.empty() || !value.front().is_object()) {
      out << value.dump();
      continue;
    }
    const char* begin = "[\n";
    for (const auto& row : value) {
      out << begin << ' ' << row.dump();
      begin = ",\n";
    }
    out << "\n]";
  }
  out << "\n}\n";
}

}  // namespace

nlohmann::ordered_json document_of(const std::vector<ResultRow>& rows,
                                   const std::vector<LeftOut>& left_out, const Setting& setting,
                                   const std::string& command) {
  nlohmann::ordered_json document = head(setting, command);
  document["subjects"] = nlohmann::ordered_json::array();
  for (const SubjectRow& row : subjects()) {
    document["subjects"].push_back({{"subject", row.name}, {"what", row.what}});
  }
  document["left_out"] = nlohmann::ordered_json::array();
  for (const LeftOut& out : left_out) {
    document["left_out"].push_back({{"suite", out.suite}, {"name", out.name}, {"why", out.why}});
  }
  document["rows"] = nlohmann::ordered_json::array();
  for (const ResultRow& row : rows) document["rows"].push_back(json_of(row));
  return document;
}

void require_writable(const std::string& file) {
  const std::string unfinished = file + ".part";
  const bool writable = std::ofstream{unfinished}.good() && !std::filesystem::is_directory(file);
  std::remove(unfinished.c_str());
  if (!writable) {
    throw std::invalid_argument{
        fmt::format("--json {}: no file can be written there; right: a file in a folder that is "
                    "there and writable",
                    file)};
  }
}

void write_document(const nlohmann::ordered_json& document, const std::string& file) {
  const std::string unfinished = file + ".part";
  std::ofstream out{unfinished};
  write_lines(document, out);
  out.close();
  if (!out || std::rename(unfinished.c_str(), file.c_str()) != 0) {
    std::remove(unfinished.c_str());
    throw std::runtime_error{fmt::format("{}: the results cannot be written there", file)};
  }
}

}  // namespace millrace::bench
