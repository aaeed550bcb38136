#include "table/driver.hpp"

#include <array>

namespace millrace::virtual_cuda {
namespace {

constexpr std::array kDriverRows{
#define MILLRACE_DRIVER(symbol, base, since, twin, capability, note) \
  DriverRow{#symbol, #base, since, Twin::twin, Capability::capability, note},
#include "table/driver.def"
#undef MILLRACE_DRIVER
};
static_assert(kDriverRows.size() == kDriverFunctions);

}  // namespace

std::span<const DriverRow> driver_functions() noexcept { return kDriverRows; }

}  // namespace millrace::virtual_cuda
