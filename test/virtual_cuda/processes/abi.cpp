#include "test/virtual_cuda/processes/abi.hpp"

#include "test/support/catch.hpp"

using namespace millrace::test;

TEST_CASE("the declarations of the binary interface agree with the toolkit's headers") {
  const Layout toolkit = toolkit_layout();
  if (toolkit.empty()) SKIP("no CUDA 13 toolkit: its headers cannot be compared");
  const Layout own = own_layout();
  CHECK(own.size() == toolkit.size());
  for (const auto& [name, value] : toolkit) {
    CAPTURE(name);
    REQUIRE(own.contains(name));
    CHECK(own.at(name) == value);
  }
}
