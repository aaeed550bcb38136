#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/tools/program.hpp"

using namespace millrace::test;

namespace {

/// An example of the program's output in a page of docs/. It is a ```text block whose first line is
/// `$ millrace ...`.
struct Shown {
  std::string page;
  std::vector<std::string> arguments;
  std::vector<std::string> lines;  ///< what it prints; "..." stands for any lines
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in{text};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<Shown> shown_in(const std::filesystem::path& page) {
  std::vector<Shown> all;
  std::istringstream in{read_file(page)};
  constexpr const char* kPrompt = "$ millrace ";
  for (std::string line; std::getline(in, line);) {
    if (line != "```text" || !std::getline(in, line) || !line.starts_with(kPrompt)) continue;
    Shown shown{page.filename().string(), words_of(line.substr(std::string{kPrompt}.size())), {}};
    while (std::getline(in, line) && line != "```") shown.lines.push_back(line);
    const bool server = std::ranges::any_of(shown.arguments, [](const std::string& word) {
      return word.find("://") != std::string::npos;  // a server, which is not here
    });
    if (!server) all.push_back(std::move(shown));
  }
  return all;
}

std::vector<Shown> shown_in_docs() {
  std::vector<std::filesystem::path> pages;
  for (const auto& entry : std::filesystem::directory_iterator{MILLRACE_DOCS}) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  std::ranges::sort(pages);
  std::vector<Shown> all;
  for (const auto& page : pages) {
    for (Shown& shown : shown_in(page)) all.push_back(std::move(shown));
  }
  return all;
}

/// The bytes of pickle.dumps(os.system, protocol=4).
const std::string kEvil{
    "\x80\x04\x95\x14\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.", 31};

/// The path of a file that a page names without its folder.
std::optional<std::filesystem::path> file_of(const std::string& name,
                                             const ScratchFolder& scratch) {
  if (name == "evil.pickle") return scratch.write(name, kEvil);
  const auto data = data_folder();
  if (!data) return std::nullopt;
  for (const char* const folder : {"traces/pytorch", "traces/minimalloc", "traces/idealloc"}) {
    if (std::filesystem::exists(*data / folder / name)) return *data / folder / name;
  }
  return std::nullopt;
}

bool is_trace(const std::string& word) {
  return word.ends_with(".pickle") || word.ends_with(".csv");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// The first line of the page that the program does not print in its place; "" if it prints all.
std::string first_stale(const std::vector<std::string>& page,
                        const std::vector<std::string>& printed) {
  std::size_t at = 0;
  bool skips = false;
  for (const std::string& line : page) {
    if (line == "...") {
      skips = true;
      continue;
    }
    if (skips) {
      at = static_cast<std::size_t>(
          std::ranges::find(printed.begin() + static_cast<std::ptrdiff_t>(at), printed.end(),
                            line) -
          printed.begin());
    }
    if (at >= printed.size() || printed[at] != line) return line.empty() ? "(an empty line)" : line;
    ++at;
    skips = false;
  }
  return skips || at == printed.size() ? "" : "the page ends before: " + printed[at];
}

/// What the program prints for a page's command; nothing if a trace is not available. The program
/// runs in a folder with links to the files: it then gets the short names of the page, and its
/// lines wrap in the same places.
std::optional<std::vector<std::string>> printed_for(const Shown& shown) {
  const ScratchFolder files, folder;
  for (const std::string& word : shown.arguments) {
    if (!is_trace(word)) continue;
    const auto file = file_of(word, files);
    if (!file) return std::nullopt;
    std::filesystem::create_symlink(std::filesystem::absolute(*file), folder / word);
  }
  const ProgramRun run = run_program(shown.arguments, folder.path());
  return lines_of(run.out + run.err);
}

}  // namespace

TEST_CASE("the output shown in the pages is what the program prints") {
  std::size_t checked = 0;
  std::string absent;
  const std::vector<Shown> all = shown_in_docs();
  REQUIRE(all.size() >= 3);
  for (const Shown& shown : all) {
    std::string command = "millrace";
    for (const std::string& word : shown.arguments) command += ' ' + word;
    const auto printed = printed_for(shown);
    if (!printed) {
      absent += command + "; ";
      continue;
    }
    INFO(shown.page << ": " << command);
    CHECK(first_stale(shown.lines, *printed).empty());
    ++checked;
  }
  CHECK(checked > 0);
  if (!absent.empty()) SKIP("the sample traces are not here (MILLRACE_DATA), for: " + absent);
}
