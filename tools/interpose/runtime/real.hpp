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
 * @brief The program's CUDA runtime, to which calls are passed on.
 *
 * A process may have several runtimes. All of them use the driver's handles, so a handle is valid
 * in each of them. All calls are passed on to the runtime that was found first.
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
  int major = 0;  ///< 0: no runtime was found
};

/** @brief The runtime. It is searched at the first call, because a program may load it late. */
[[nodiscard]] const Runtime& real() noexcept;

/**
 * @brief Whether Millrace's own calls have a runtime. That is the program's runtime if it has the
 *        major version of this library's toolkit. Otherwise, this library loads one.
 */
[[nodiscard]] bool allocator_has_runtime() noexcept;

/** @brief A function of libcuda.so.1, which is loaded if necessary; nullptr if it is missing. */
[[nodiscard]] void* driver_function(const char* name) noexcept;

/** @brief Whether libcuda.so.1 is loaded, which means that the process has used CUDA. */
[[nodiscard]] bool driver_is_loaded() noexcept;

/** @brief Whether the program has loaded a shared CUDA runtime, even without a call of it. */
[[nodiscard]] bool runtime_is_loaded() noexcept;

/** @brief Whether PyTorch's CUDA allocator (libc10_cuda.so) is in the process. */
[[nodiscard]] bool pytorch_is_loaded() noexcept;

/** @brief Prints a message for the user on standard error, once for each `what`. */
void warn_once(const char* what) noexcept;

}  // namespace millrace::interpose
