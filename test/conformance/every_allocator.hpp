#pragma once

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

/// Runs `body` over every allocator, each on its own machine.
template <typename Body>
void over_every_allocator(Body body) {
  for (const auto& factory : allocator_factories()) {
    SECTION(factory.name) {
      Bench bench;
      const auto allocator = factory.make(bench);
      body(bench, *allocator);
    }
  }
}

}  // namespace millrace::test
