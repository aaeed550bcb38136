#include "table/functions.hpp"

namespace millrace::virtual_cuda {
namespace {

// clang limits the depth of the fold that deduces `std::array`'s arguments.
constexpr auto kRows = std::to_array<FunctionRow>({
#define MILLRACE_FUNCTION(name, capability, twin, library, note) \
  FunctionRow{#name, Capability::capability, Twin::twin, Library::library, note},
#include "table/functions.def"
#undef MILLRACE_FUNCTION
});
static_assert(kRows.size() == kFunctions);

}  // namespace

std::string_view name_of(Capability capability) noexcept {
  switch (capability) {
    case Capability::real:
      return "real";
    case Capability::approximate:
      return "approximate";
    case Capability::no_op:
      return "no-op";
    case Capability::refused:
      break;
  }
  return "refused";
}

std::span<const FunctionRow> functions() noexcept { return kRows; }

}  // namespace millrace::virtual_cuda
