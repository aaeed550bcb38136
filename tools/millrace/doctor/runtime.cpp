#include "doctor/runtime.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "cli/error.hpp"
#include "table/driver.hpp"
#include "table/functions.hpp"

namespace millrace::cli {
namespace {

using virtual_cuda::Capability;
using Json = nlohmann::ordered_json;

constexpr std::array kCapabilities{Capability::real, Capability::approximate, Capability::no_op,
                                   Capability::refused};

struct Function {
  std::string_view name;
  Capability capability;
  std::string_view note;
  std::vector<int> versions;  ///< major versions of CUDA with this function; empty: all
  int since = 0;              ///< CUDA version that introduced these parameters; 0: unknown
};

struct Library {
  std::string_view name;
  std::vector<Function> functions;

  [[nodiscard]] std::size_t count(Capability capability) const {
    return static_cast<std::size_t>(
        std::count_if(functions.begin(), functions.end(),
                      [&](const Function& function) { return function.capability == capability; }));
  }
};

constexpr std::string_view kCostOnly = "takes its turn and the time of its flops and bytes";

std::string_view cublas_note(Capability capability) {
  return capability == Capability::approximate ? kCostOnly : std::string_view{};
}

std::vector<int> versions(virtual_cuda::Library library) {
  switch (library) {
    case virtual_cuda::Library::v12:
      return {12};
    case virtual_cuda::Library::v13:
      return {13};
    case virtual_cuda::Library::both:
      break;
  }
  return {12, 13};
}

std::vector<Library> libraries() {
  Library runtime{"libcudart", {}};
  for (const virtual_cuda::FunctionRow& row : virtual_cuda::functions())
    runtime.functions.push_back({row.name, row.capability, row.note, versions(row.library)});
  Library driver{"libcuda", {}};
  for (const virtual_cuda::DriverRow& row : virtual_cuda::driver_functions())
    driver.functions.push_back({row.symbol, row.capability, row.note, {}, row.since});
#define MILLRACE_CUBLAS(name, capability) \
  {#name, Capability::capability, cublas_note(Capability::capability), {}},
  Library cublas{"libcublas",
                 {
#include "cublas/functions.def"
                 }};
  Library cublas_lt{"libcublasLt",
                    {
#include "cublas/lt_functions.def"
                    }};
#undef MILLRACE_CUBLAS
  return {std::move(runtime), std::move(driver), std::move(cublas), std::move(cublas_lt)};
}

std::string counts(const std::vector<Library>& all, const Painter& paint) {
  TextTable::Group group{"functions", {}};
  for (const Capability capability : kCapabilities)
    group.columns.push_back({std::string{name_of(capability)}});
  TextTable table{{{"", {{"library"}}}, group}};
  for (const Library& library : all) {
    std::vector<TextTable::Cell> cells{{std::string{library.name}}};
    for (const Capability capability : kCapabilities)
      cells.push_back({std::to_string(library.count(capability))});
    table.add_row(std::move(cells));
  }
  return table.render(paint);
}

/** Name, capability and note. A note that does not fit on the line is printed below it. */
std::string row(const Function& function) {
  constexpr std::size_t kNameWidth = 48;
  constexpr std::size_t kIndent = 4;
  std::string line =
      pad(function.name, kNameWidth, Align::left) + ' ' + std::string{name_of(function.capability)};
  if (function.note.empty()) return line + '\n';
  const std::string beside = line + ": " + std::string{function.note};
  if (width_of(beside) <= page_width()) return beside + '\n';
  const std::string blanks(kIndent, ' ');
  return line + '\n' + blanks + wrap(std::string{function.note}, page_width() - kIndent, kIndent) +
         '\n';
}

/** Keeps only functions whose names match, and libraries that have such a function. */
std::vector<Library> matching(std::vector<Library> all, const std::string& pattern) {
  const bool part = pattern.find_first_of("*?") == std::string::npos;
  const std::string whole = part ? '*' + pattern + '*' : pattern;
  for (Library& library : all)
    std::erase_if(library.functions, [&](const Function& function) {
      return fnmatch(whole.c_str(), std::string{function.name}.c_str(), 0) != 0;
    });
  std::erase_if(all, [](const Library& library) { return library.functions.empty(); });
  if (all.empty())
    throw UsageError{"no function of CUDA is called '" + pattern + "'", "--functions",
                     "a part of a name, or a pattern: cudaGraph*"};
  return all;
}

}  // namespace

std::string runtime_text(const Painter& paint, const std::string& pattern) {
  const std::vector<Library> all = matching(libraries(), pattern);
  std::string text = counts(all, paint);
  for (const Library& library : all) {
    text += '\n' + paint(library.name, Look::strong) + '\n';
    for (const Function& function : library.functions) text += row(function);
  }
  return text;
}

Json runtime_document(const std::string& pattern) {
  Json document{{"schema", "millrace.doctor.runtime/1"}, {"libraries", Json::array()}};
  for (const Library& library : matching(libraries(), pattern)) {
    Json each{{"name", library.name}, {"counts", Json::object()}, {"functions", Json::array()}};
    for (const Capability capability : kCapabilities)
      each["counts"][std::string{name_of(capability)}] = library.count(capability);
    for (const Function& function : library.functions) {
      Json found{{"name", function.name}, {"capability", name_of(function.capability)}};
      found["note"] = function.note.empty() ? Json(nullptr) : Json(function.note);
      if (!function.versions.empty()) found["cuda"] = function.versions;
      if (function.since != 0) found["since"] = function.since;
      each["functions"].push_back(std::move(found));
    }
    document["libraries"].push_back(std::move(each));
  }
  return document;
}

}  // namespace millrace::cli
