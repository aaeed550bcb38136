#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "table/driver.hpp"
#include "test/support/catch.hpp"
#include "test/virtual_cuda/processes/words.hpp"

using namespace millrace::virtual_cuda;

namespace {

const char* suffix(Twin twin) {
  switch (twin) {
    case Twin::ptsz:
      return "_ptsz";
    case Twin::ptds:
      return "_ptds";
    case Twin::none:
      break;
  }
  return "";
}

std::set<std::string> expected_exports() {
  std::set<std::string> names;
  for (const DriverRow& row : driver_functions()) {
    names.insert(std::string{row.symbol});
    names.insert(std::string{row.symbol} + suffix(row.twin));
  }
  return names;
}

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  return text.str();
}

/// Calls `use` with each match of `pattern` in a header of the toolkit, if the header exists.
template <typename Use>
void for_each_match(const std::string& header, const char* pattern, Use use) {
  const std::string all = text_of(std::string{MILLRACE_CUDA_INCLUDE} + '/' + header);
  const std::regex expression{pattern};
  for (std::sregex_iterator found{all.begin(), all.end(), expression}, end; found != end; ++found)
    use(*found);
}

constexpr const char* kHeaders[] = {"cuda", "cudaProfiler", "cudaGL", "cudaEGL", "cudaVDPAU"};

}  // namespace

TEST_CASE("the driver's table has each symbol once, and a note unless it is real") {
  std::set<std::string_view> names;
  for (const DriverRow& row : driver_functions()) {
    CAPTURE(row.symbol);
    CHECK(names.insert(row.symbol).second);
    CHECK(row.note.empty() == (row.capability == Capability::real));
    CHECK(row.symbol.starts_with(row.base));
  }
}

TEST_CASE("later variants of a function have a later version of CUDA") {
  for (const DriverRow& row : driver_functions())
    for (const DriverRow& other : driver_functions()) {
      if (row.base != other.base || row.symbol >= other.symbol) continue;
      CAPTURE(row.symbol, other.symbol);
      CHECK(row.since < other.since);
    }
}

TEST_CASE("libcuda.so.1 exports exactly the driver functions of its table") {
  void* const handle = dlopen(MILLRACE_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  const std::set<std::string> expected = expected_exports();
  for (const std::string& name : expected) {
    CAPTURE(name);
    CHECK(dlsym(handle, name.c_str()) != nullptr);
  }
  CHECK(dlsym(handle, "cudaMalloc") == nullptr);
  if (words_of_command("command -v nm").empty()) return;
  CHECK(words_of_command("nm -D --defined-only --format=posix '" MILLRACE_LIBCUDA
                         "' | grep '^cu[A-Z]'") == expected);
}

TEST_CASE("the driver's table has each function that the driver's headers declare") {
  if (std::string_view{MILLRACE_CUDA_INCLUDE}.empty())
    SKIP("no CUDA toolkit: its headers cannot be compared");
  std::set<std::string> known = expected_exports();
  for (const DriverRow& row : driver_functions()) known.insert(std::string{row.base});
  for (const std::string header : kHeaders) {
    std::size_t declared = 0;
    for_each_match(header + ".h", R"(CUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*\()",
                   [&](const std::smatch& found) {
                     if (found[1].str().starts_with("cuWGL")) return;  // Windows only
                     CAPTURE(found[1].str());
                     CHECK(known.contains(found[1]));
                     ++declared;
                   });
    CAPTURE(header);
    CHECK(declared != 0);
    // The symbol that a name of the header stands for: "#define cuMemAlloc cuMemAlloc_v2".
    for_each_match(header + ".h",
                   R"(#define\s+(cu[A-Z]\w*)\s+(?:__CUDA_API_PT(\w\w)\()?(cu[A-Z]\w*))",
                   [&](const std::smatch& found) {
                     std::string symbol = found[3];
                     // The header itself defines this function.
                     if (symbol == "cuGetProcAddress_v2_ptsz") return;
                     if (found[2].matched) symbol += found[2] == "SZ" ? "_ptsz" : "_ptds";
                     CAPTURE(symbol);
                     CHECK(known.contains(symbol));
                   });
  }
}

TEST_CASE("the versions in the driver's table agree with the toolkit's headers") {
  if (std::string_view{MILLRACE_CUDA_INCLUDE}.empty())
    SKIP("no CUDA toolkit: its headers cannot be compared");
  std::set<std::string> documented;
  for (const std::string header : kHeaders)
    for_each_match(header + "Typedefs.h", R"(PFN_(cu[A-Z]\w*?)_v(\d+)(?:_pt\w\w)?\))",
                   [&](const std::smatch& found) {
                     documented.insert(found[1].str() + ' ' + found[2].str());
                   });
  REQUIRE_FALSE(documented.empty());
  for (const DriverRow& row : driver_functions()) {
    CAPTURE(row.symbol);
    CHECK(documented.contains(std::string{row.base} + ' ' + std::to_string(row.since)));
  }
}
