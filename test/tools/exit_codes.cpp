#include "cli/exit_codes.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// The rows of the first table after a heading, without the table's head.
std::vector<std::string> table_behind(const std::string& heading, const std::string& page) {
  std::istringstream in{page};
  std::vector<std::string> rows;
  bool found = false;
  for (std::string line; std::getline(in, line);) {
    found = found || line == heading;
    if (found && line.starts_with('|')) rows.push_back(line);
    if (!line.starts_with('|') && !rows.empty()) break;
  }
  REQUIRE(rows.size() > 2);
  return {rows.begin() + 2, rows.end()};
}

}  // namespace

TEST_CASE("docs/program.md has the exit codes of the program, with the same words") {
  const auto rows = table_behind("## Exit codes", read_file(MILLRACE_DOCS "/program.md"));
  REQUIRE(rows.size() == cli::kExitCodes.size() + 1);  // and one row for signals
  for (std::size_t i = 0; i < cli::kExitCodes.size(); ++i) {
    const auto& [code, meaning] = cli::kExitCodes[i];
    CHECK(rows[i] == fmt::format("| {} | {} |", cli::number_of(code), meaning));
  }
  CHECK(rows.back().starts_with("| 130, 143 |"));
}

TEST_CASE("an exit code has one meaning, and the pages mention only exit codes that exist") {
  std::set<int> codes{130, 143};
  std::set<std::string_view> meanings;
  for (const auto& [code, meaning] : cli::kExitCodes) {
    CHECK(codes.insert(cli::number_of(code)).second);
    CHECK(meanings.insert(meaning).second);
  }
  const std::regex spoken{"[Ee]xit code (?:is )?([0-9]+)"};
  unsigned found = 0;
  for (const auto& entry : std::filesystem::directory_iterator{MILLRACE_DOCS}) {
    if (entry.path().extension() != ".md") continue;
    CAPTURE(entry.path());
    const std::string page = read_file(entry.path());
    for (std::sregex_iterator at{page.begin(), page.end(), spoken}, end; at != end; ++at) {
      CAPTURE(at->str());
      CHECK(codes.contains(std::stoi((*at)[1])));
      ++found;
    }
  }
  CHECK(found > 3);
}
