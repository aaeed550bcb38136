#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace millrace::interpose {

/** @brief The numbers of the functions in functions.def, for counting. */
enum class Function : unsigned char {
#define MILLRACE_RUNTIME(name) name,
#define MILLRACE_OPTIONAL(name) name,
#include "runtime/functions.def"
#undef MILLRACE_RUNTIME
#undef MILLRACE_OPTIONAL
  count_
};

inline constexpr std::size_t kFunctions = static_cast<std::size_t>(Function::count_);

[[nodiscard]] const char* to_string(Function function) noexcept;

/**
 * @brief The CUDA runtime that the program uses: what its calls are passed on to.
 *
 * A process may have several. Their handles are the driver's, and so are one runtime's also
 * another's; all calls are passed to the one that was found first.
 */
struct Runtime {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // programs call such functions too
#define MILLRACE_RUNTIME(name) decltype(&::name) name = nullptr;
#define MILLRACE_OPTIONAL(name) decltype(&::name) name = nullptr;
#include "runtime/functions.def"
#undef MILLRACE_RUNTIME
#undef MILLRACE_OPTIONAL
#pragma GCC diagnostic pop
  decltype(&::cudaMemcpy) cudaMemcpy_ptds = nullptr;
  int major = 0;  ///< 0: none was found
};

/** @brief Looked for at the first call: a program may load its runtime late. */
[[nodiscard]] const Runtime& real() noexcept;

/**
 * @brief Whether Millrace's own calls have a runtime: that of the program if it is of the toolkit
 *        that this library was built with, else one that is loaded now.
 */
[[nodiscard]] bool allocator_has_runtime() noexcept;

/** @brief A function of the driver that the process has loaded; nullptr if there is none. */
[[nodiscard]] void* driver_function(const char* name) noexcept;

/** @brief Whether libcuda.so.1 is loaded: the process has used CUDA in one way or another. */
[[nodiscard]] bool driver_is_loaded() noexcept;

/** @brief Whether the program has loaded a shared CUDA runtime, called or not. */
[[nodiscard]] bool runtime_is_loaded() noexcept;

/** @brief Whether PyTorch's CUDA allocator (libc10_cuda.so) is in the process. */
[[nodiscard]] bool pytorch_is_loaded() noexcept;

/** @brief Says on standard error, once for each `what`, something that the user has to know. */
void tell_once(const char* what) noexcept;

}  // namespace millrace::interpose
