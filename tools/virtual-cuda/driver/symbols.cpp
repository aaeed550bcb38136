#include "driver/symbols.hpp"

#include <array>
#include <string_view>

#include "table/driver.hpp"

// Only the addresses matter here. The other files of this folder have the functions' parameters.
#define MILLRACE_DECLARE_none(symbol) void symbol();
#define MILLRACE_DECLARE_ptsz(symbol) \
  void symbol();                      \
  void symbol##_ptsz();
#define MILLRACE_DECLARE_ptds(symbol) \
  void symbol();                      \
  void symbol##_ptds();
#define MILLRACE_DRIVER(symbol, base, since, twin, capability, note) \
  extern "C" {                                                       \
  MILLRACE_DECLARE_##twin(symbol)                                    \
  }
#include "table/driver.def"
#undef MILLRACE_DRIVER

namespace millrace::virtual_cuda {
namespace {

using Address = void (*)();
struct Addresses {
  Address function;
  Address twin;  ///< the function itself if it has no twin
};

#define MILLRACE_ADDRESS_none(symbol) Addresses{symbol, symbol},
#define MILLRACE_ADDRESS_ptsz(symbol) Addresses{symbol, symbol##_ptsz},
#define MILLRACE_ADDRESS_ptds(symbol) Addresses{symbol, symbol##_ptds},
#define MILLRACE_DRIVER(symbol, base, since, twin, capability, note) MILLRACE_ADDRESS_##twin(symbol)
// clang limits the depth of the fold that deduces `std::array`'s arguments.
constexpr auto kAddresses = std::to_array<Addresses>({
#include "table/driver.def"
});
#undef MILLRACE_DRIVER
static_assert(kAddresses.size() == kDriverFunctions);

}  // namespace

FoundSymbol find_driver_function(const char* name, int version, bool per_thread) noexcept {
  FoundSymbol found;
  int newest = 0;
  const auto rows = driver_functions();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].base != std::string_view{name}) continue;
    if (found.function == nullptr) found.status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (rows[i].since > version || rows[i].since < newest) continue;
    newest = rows[i].since;
    found.function =
        reinterpret_cast<void*>(per_thread ? kAddresses[i].twin : kAddresses[i].function);
    found.status = CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return found;
}

}  // namespace millrace::virtual_cuda
