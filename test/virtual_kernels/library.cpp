// The library that MILLRACE_VIRTUAL_KERNELS names. docs/virtual-cuda.md describes it.

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {
namespace {

const MillraceVirtualCuda* loader = nullptr;

const std::vector<Row>& all_rows() {
  static const auto* const rows = [] {
    auto* const all = new std::vector<Row>;
    for (const auto add :
         {add_rows_of_allocator, add_rows_of_capture, add_rows_of_data, add_rows_of_dense,
          add_rows_of_look_up, add_rows_of_row_cache, add_rows_of_sharding, add_rows_of_sort,
          add_rows_of_tests, add_rows_of_update_rows})
      add(*all);
    return all;
  }();
  return *rows;
}

std::string escaped(const std::string& name) {
  std::string pattern;
  for (const char letter : name) {
    if (letter == '*' || letter == '?' || letter == '[' || letter == '\\') pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

}  // namespace

bool own_code() { return std::getenv("MILLRACE_KERNELS_OWN_CODE") != nullptr; }

const MillraceVirtualCuda& runtime() { return *loader; }

void fail(const MillraceLaunch& launch, const char* what) {
  std::fprintf(stderr, "millrace kernels on the host: %s in %s\n", what, launch.kernel);
  std::abort();
}

void require_memory(const void* address, std::size_t bytes) {
  if (bytes == 0) return;
  const auto* const last = static_cast<const std::byte*>(address) + bytes - 1;
  if (loader->reachable(address) == 0) throw IllegalAddress{address};
  if (loader->reachable(last) == 0) throw IllegalAddress{last};
}

void run_kernel(const MillraceLaunch& launch, const std::function<void()>& kernel) {
  try {
    kernel();
  } catch (const IllegalAddress& illegal) {
    constexpr int kIllegalAddress = 700;  // cudaErrorIllegalAddress
    std::fprintf(stderr, "millrace kernels on the host: %p is not memory, in %s\n", illegal.address,
                 launch.kernel);
    loader->lose(kIllegalAddress);
  } catch (const std::exception& error) {
    fail(launch, error.what());
  }
}

// The tag of a template is "...Tag<&(RESULT NAME<...>(PARAMETERS))>", any other is "...Tag<&NAME>".
std::string pattern_of(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free};
  if (text == nullptr) throw std::logic_error{std::string{"not a name: "} + mangled};
  const std::string name = text.get();
  const std::size_t begin = name.find("Tag<&") + 5;
  const std::size_t end = name.size() - 1;
  if (name[begin] == '(') return escaped(name.substr(begin + 1, end - begin - 2));
  return escaped(name.substr(begin, end - begin)) + "(*";
}

}  // namespace millrace::test::virtual_kernels

using namespace millrace::test::virtual_kernels;

extern "C" __attribute__((visibility("default"))) void millrace_virtual_kernels(
    const MillraceVirtualCuda* table) {
  loader = table;
  for (const Row& row : all_rows()) {
    const MillraceKernel kernel{row.pattern.c_str(), row.argument_bytes.data(),
                                row.argument_bytes.size(), row.run, row.cost};
    table->add_kernel(&kernel);
  }
}

/** Calls `visit` with the pattern of each row. The test of the table uses it. */
extern "C" __attribute__((visibility("default"))) void millrace_virtual_kernel_rows(
    void (*visit)(const char* pattern, void* data), void* data) {
  for (const Row& row : all_rows()) visit(row.pattern.c_str(), data);
}
