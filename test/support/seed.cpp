#include "test/support/seed.hpp"

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace millrace::test {

std::uint64_t seed() {
  const char* const given = std::getenv("MILLRACE_SEED");
  if (given == nullptr) return 1;
  const std::string text{given};
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument{"MILLRACE_SEED must be a number, but is '" + text + "'"};
  }
  return value;
}

}  // namespace millrace::test
