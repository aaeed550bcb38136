#include "doctor/runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

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
  std::vector<int> versions;  ///< major versions of CUDA whose library has it; empty: all
  int since = 0;              ///< version of CUDA that brought its parameters; 0: not told
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

std::string row(const Function& function, std::size_t name_width) {
  constexpr std::size_t kCapabilityWidth = 12;
  const std::string start =
      "  " + pad(function.name, name_width, Align::left) + "  " +
      (function.note.empty() ? std::string{name_of(function.capability)}
                             : pad(name_of(function.capability), kCapabilityWidth, Align::left));
  return wrap(start + std::string{function.note}, page_width(), name_width + 2 + kCapabilityWidth) +
         '\n';
}

}  // namespace

std::string runtime_text(const Painter& paint) {
  const std::vector<Library> all = libraries();
  std::string text = counts(all, paint);
  for (const Library& library : all) {
    std::size_t width = 0;
    for (const Function& function : library.functions)
      width = std::max(width, function.name.size());
    text += '\n' + paint(library.name, Look::strong) + '\n';
    for (const Function& function : library.functions) text += row(function, width);
  }
  return text;
}

Json runtime_document() {
  Json document{{"schema", "millrace.doctor.runtime/1"}, {"libraries", Json::array()}};
  for (const Library& library : libraries()) {
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
