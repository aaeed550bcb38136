#include "table/driver.hpp"

#include <array>

namespace millrace::virtual_cuda {
namespace {

// clang limits the depth of the fold that deduces `std::array`'s arguments.
constexpr auto kDriverRows = std::to_array<DriverRow>({
#define MILLRACE_DRIVER(symbol, base, since, twin, capability, note) \
  DriverRow{#symbol, #base, since, Twin::twin, Capability::capability, note},
#include "table/driver.def"
#undef MILLRACE_DRIVER
});
static_assert(kDriverRows.size() == kDriverFunctions);

}  // namespace

std::span<const DriverRow> driver_functions() noexcept { return kDriverRows; }

}  // namespace millrace::virtual_cuda
