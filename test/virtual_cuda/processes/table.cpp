#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "table/driver.hpp"
#include "table/functions.hpp"
#include "test/support/catch.hpp"
#include "test/virtual_cuda/processes/words.hpp"

using namespace millrace::virtual_cuda;

namespace {

struct RuntimeLibrary {
  const char* file;
  const char* version;  ///< version node of its symbols
  Library own;
};

const RuntimeLibrary kLibraries[] = {
    {MILLRACE_CUDART_12, "libcudart.so.12", Library::v12},
    {MILLRACE_CUDART_13, "libcudart.so.13", Library::v13},
};

std::vector<std::string> exports(const FunctionRow& row) {
  std::vector<std::string> names{std::string{row.name}};
  if (row.twin == Twin::ptsz) names.push_back(names.front() + "_ptsz");
  if (row.twin == Twin::ptds) names.push_back(names.front() + "_ptds");
  return names;
}

std::set<std::string> expected_exports(Library own) {
  std::set<std::string> names;
  for (const FunctionRow& row : functions())
    if (row.library == Library::both || row.library == own)
      for (const std::string& name : exports(row)) names.insert(name);
  return names;
}

/** Functions that a header of the toolkit declares. */
std::set<std::string> declared_in(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  const std::string all = text.str();
  const std::regex declaration{R"(CUDARTAPI(?:_CDECL)?\s+(\w+)\s*\()"};
  std::set<std::string> names;
  for (std::sregex_iterator found{all.begin(), all.end(), declaration}, end; found != end; ++found)
    if (!(*found)[1].str().starts_with("cudaWGL")) names.insert((*found)[1]);  // Windows only
  return names;
}

}  // namespace

TEST_CASE("the runtime's table has each function once, and a note unless it is real") {
  std::set<std::string_view> names;
  for (const FunctionRow& row : functions()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(row.note.empty() == (row.capability == Capability::real));
  }
}

TEST_CASE("each library exports exactly the functions of the table under its version node") {
  for (const RuntimeLibrary& library : kLibraries) {
    CAPTURE(library.file);
    void* const handle = dlopen(library.file, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle != nullptr);
    const std::set<std::string> expected = expected_exports(library.own);
    for (const std::string& name : expected) {
      CAPTURE(name);
      CHECK(dlvsym(handle, name.c_str(), library.version) != nullptr);
    }
    if (words_of_command("command -v nm").empty()) continue;
    const std::set<std::string> found =
        words_of_command(std::string{"nm -D --defined-only --format=posix '"} + library.file +
                         "' | sed 's/@.*//' | grep -v '^libcudart'");
    CHECK(found == expected);
  }
}

TEST_CASE("the runtime's table has each function that the toolkit's headers declare") {
  const std::string folder = MILLRACE_CUDA_INCLUDE;
  if (folder.empty()) SKIP("no CUDA toolkit: its headers cannot be compared");
  const std::set<std::string> known12 = expected_exports(Library::v12);
  const std::set<std::string> known13 = expected_exports(Library::v13);
  for (const char* const header : {"cuda_runtime_api.h", "cuda_profiler_api.h", "cuda_gl_interop.h",
                                   "cuda_egl_interop.h", "cuda_vdpau_interop.h"}) {
    if (!std::filesystem::exists(folder + '/' + header)) continue;
    const std::set<std::string> names = declared_in(folder + '/' + header);
    CAPTURE(header);
    CHECK_FALSE(names.empty());
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK((known12.contains(name) || known13.contains(name)));
    }
  }
}

TEST_CASE("the page about the virtual runtime has the counts of both tables") {
  std::map<Capability, int> runtime;
  std::map<Capability, int> driver;
  for (const FunctionRow& row : functions()) ++runtime[row.capability];
  for (const DriverRow& row : driver_functions()) ++driver[row.capability];
  std::ostringstream page;
  page << std::ifstream{MILLRACE_DOCS "/virtual-cuda.md"}.rdbuf();
  for (const auto& [capability, count] : runtime)
    CHECK_THAT(page.str(),
               Catch::Matchers::ContainsSubstring("| " + std::string{name_of(capability)} + " | " +
                                                  std::to_string(count) + " | " +
                                                  std::to_string(driver[capability]) + " |"));
}
