#include "train/find_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <vector>

#include "cli/error.hpp"
#include "cli/values.hpp"
#include "cli/without_effect.hpp"
#include "millrace/pipeline/data/byte_stream.hpp"
#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRightData =
    "synthetic, adult, adult:FOLDER, or a file: Criteo's TSV or UCI Adult's, .gz too";

std::vector<fs::path> adult_folders() {
  if (const char* const data = std::getenv("MILLRACE_DATA")) return {fs::path{data} / "adult"};
  std::vector<fs::path> folders;
  for (const char* const from : {".", ".."}) {
    for (const char* const to : {"data/adult", "shared/data/adult"}) {
      folders.push_back(fs::path{from} / to);
    }
  }
  return folders;
}

bool has_adult(const fs::path& folder) {
  return fs::exists(folder / "adult.data") && fs::exists(folder / "adult.test");
}

[[noreturn]] void miss_adult(const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) names.push_back(folder.string());
  throw UsageError{
      fmt::format("adult.data and adult.test are not there; looked for in {}",
                  fmt::join(names, ", ")),
      "--data",
      "get both from https://archive.ics.uci.edu/dataset/2/adult, and give their folder as "
      "adult:FOLDER, or the one above it, named adult, as MILLRACE_DATA"};
}

fs::path find_adult(const std::string& given) {
  std::vector<fs::path> folders = adult_folders();
  if (const auto colon = given.find(':'); colon != std::string::npos) {
    folders = {given.substr(colon + 1)};
  }
  const auto found = std::find_if(folders.begin(), folders.end(), has_adult);
  if (found == folders.end()) miss_adult(folders);
  return *found;
}

/** The first lines of a file, decompressed. */
std::string beginning(const fs::path& file, std::string_view option) {
  try {
    std::array<char, 1 << 14> room{};
    const auto stream = file_source(file).open();
    return {room.data(), stream->read(room)};
  } catch (const std::exception& error) {
    throw UsageError{error.what(), std::string{option}, std::string{kRightData}};
  }
}

/** The most frequent number of separators in a line. Some lines may be malformed. */
std::size_t usual_in_a_line(std::string_view text, char separator) {
  std::map<std::size_t, std::size_t> lines;  // by number of separators
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    ++lines[static_cast<std::size_t>(std::count(line.begin(), line.end(), separator))];
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  const auto fewer = [](const auto& one, const auto& other) { return one.second < other.second; };
  const auto most = std::max_element(lines.begin(), lines.end(), fewer);
  return most == lines.end() ? 0 : most->first;
}

DataKind kind_of(const fs::path& file, const std::optional<std::string>& format) {
  if (format) {
    return read_name("--data-format", "format", *format, {"criteo", "adult"}) == "criteo"
               ? DataKind::criteo
               : DataKind::adult_file;
  }
  constexpr std::size_t kCriteoTabs = 39, kAdultCommas = 14;
  const std::string text = beginning(file, "--data");
  const std::size_t tabs = usual_in_a_line(text, '\t'), commas = usual_in_a_line(text, ',');
  if (tabs == kCriteoTabs) return DataKind::criteo;
  if (commas == kAdultCommas) return DataKind::adult_file;
  throw UsageError{
      fmt::format(
          "'{}' has neither the format of Criteo (40 columns separated by tabs) nor that of UCI "
          "Adult (15 columns separated by commas): its first lines have {} and {} columns",
          file.string(), tabs + 1, commas + 1),
      "--data", "another file, or --data-format criteo or adult to read this file anyway"};
}

}  // namespace

std::vector<UsedPath> data_files(const std::string& data) {
  if (data == "synthetic") return {};
  if (data != "adult" && !data.starts_with("adult:")) return {UsedPath{data}};
  const fs::path folder = find_adult(data);
  return {UsedPath{folder / "adult.data"}, UsedPath{folder / "adult.test"}};
}

DataOptions find_data(const TrainArguments& given) {
  if (!given.data)
    throw UsageError{"no training data was named", "--data", std::string{kRightData}};
  const std::string& data = *given.data;
  DataOptions options;
  options.malformed = read_whole("--malformed", given.malformed.value_or("100"), 0, 1'000'000'000);
  options.examples =
      read_whole("--examples", given.examples.value_or("32768"), 1, std::uint64_t{1} << 40U);
  refuse_without_effect("--malformed", data == "synthetic" && given.malformed,
                        "synthetic data have no lines", "data that are read from a file");
  refuse_without_effect("--examples", data != "synthetic" && given.examples,
                        "the number of examples follows from the file", "--data synthetic");
  const bool named = data == "synthetic" || data == "adult" || data.starts_with("adult:");
  if (named && (given.test || given.format)) {
    throw UsageError{fmt::format("{} has a test set and a format of its own", data),
                     given.test ? "--test" : "--data-format", "--data FILE with it, or without"};
  }
  if (data == "synthetic") {
    options.name = "synthetic";
  } else if (named) {
    options.kind = DataKind::adult;
    options.name = "adult";
    options.path = find_adult(data);
  } else {
    static_cast<void>(beginning(data, "--data"));
    options.kind = kind_of(data, given.format);
    options.name = options.kind == DataKind::criteo ? "criteo" : "adult";
    options.path = data;
    if (given.test) static_cast<void>(beginning(*given.test, "--test"));
    if (given.test) options.test = *given.test;
  }
  return options;
}

}  // namespace millrace::cli
