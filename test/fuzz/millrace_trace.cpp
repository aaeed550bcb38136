#include <cstddef>
#include <cstdint>

#include "test/fuzz/support/trace_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  millrace::trace::fuzz::read_and_check({data, data + size});
  return 0;
}
