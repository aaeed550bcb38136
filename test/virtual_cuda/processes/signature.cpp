#include "check/signature.hpp"

#include <string>

#include "test/support/catch.hpp"

using millrace::virtual_cuda::function_name;
using millrace::virtual_cuda::pointer_parameters;

namespace {

/// "0w 2r": the kernel writes through the first parameter and reads through the third.
std::string pointers(const char* readable) {
  const auto found = pointer_parameters(readable);
  if (!found) return "unknown";
  std::string text;
  for (const auto& pointer : *found) {
    if (!text.empty()) text += ' ';
    text += std::to_string(pointer.index) + (pointer.writes ? 'w' : 'r');
  }
  return text;
}

}  // namespace

TEST_CASE("a kernel's signature says which pointers it reads and which it writes") {
  CHECK(pointers("add(float const*, float*, int)") == "0r 1w");
  CHECK(pointers("void add<int, Pair<char*, int> >(Pair<char*, int>, int, int const*)") == "2r");
  CHECK(pointers("copy(void const*, void*)") == "0r 1w");
  CHECK(pointers("table(float const* const*, float* const*)") == "0r 1r");
  CHECK(pointers("void run<main::{lambda(int*, int)#1}>(main::{lambda(int*, int)#1}, char*)") ==
        "1w");
  CHECK(pointers("(anonymous namespace)::fill(int*)") == "0w");
  CHECK(pointers("call(void (*)(int*), int*)") == "1w");
  CHECK(pointers("none()").empty());
  CHECK(pointers("no_signature") == "unknown");
  CHECK(pointers("") == "unknown");
  CHECK(pointers(")") == "unknown");
  CHECK(pointers("f(a<b, int*)") == "0w");  // an invalid signature does no harm
}

TEST_CASE("a kernel's name has no parameters and no return type") {
  CHECK(function_name("void app::add<int, float>(float const*, int)") == "app::add<int, float>");
  CHECK(function_name("(anonymous namespace)::fill(int*)") == "(anonymous namespace)::fill");
  CHECK(function_name("plain") == "plain");
  CHECK(function_name("add(int)") == "add");
}
