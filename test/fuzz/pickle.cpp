#include "millrace/observe/trace/pickle.hpp"

#include <cstddef>
#include <cstdint>

#include "millrace/observe/trace/parse_error.hpp"

namespace {

using millrace::trace::Value;
using millrace::trace::ValueKind;

// Follows the last items only, because a shared object may lie on very many paths.
std::size_t length_of_last(const Value& value) {
  switch (value.kind()) {
    case ValueKind::string:
    case ValueKind::bytes:
      return value.text().size();
    case ValueKind::dict:
      return value.size() == 0 ? 0 : 1 + length_of_last(value.entry(value.size() - 1).second);
    case ValueKind::list:
    case ValueKind::tuple:
      return value.size() == 0 ? 0 : 1 + length_of_last(value.item(value.size() - 1));
    default:
      return 1;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto tree = millrace::trace::read_pickle({data, data + size}, "input");
    if (length_of_last(tree.root()) > size + 64) __builtin_trap();
  } catch (const millrace::trace::ParseError&) {
  }
  return 0;
}
