#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "abi/cuda_runtime_api.h"
#include "check/signature.hpp"
#include "engine/images.hpp"
#include "engine/work.hpp"
#include "millrace/virtual_cuda.h"

namespace millrace::virtual_cuda {

/** @brief A host implementation of kernels, as it was registered. */
struct HostKernel {
  std::string pattern;
  std::vector<std::size_t> argument_bytes;
  void (*run)(const MillraceLaunch*) = nullptr;
  void (*cost)(const MillraceLaunch*, MillraceCost*) = nullptr;
  void (*accesses)(const MillraceLaunch*, const MillraceAccesses*) = nullptr;
};

/** @brief The cost of a kernel in the file MILLRACE_VIRTUAL_COSTS. */
struct GivenCost {
  Nanoseconds time{0};    ///< 0: not given
  bool by_bytes = false;  ///< the cost is the bytes that its pointers reach

  [[nodiscard]] bool none() const noexcept { return time.count() == 0 && !by_bytes; }
};

struct Kernel {
  std::string name;
  std::string readable;  ///< as c++filt prints it; made when a pattern is first compared
  const void* host_function = nullptr;
  void** module = nullptr;
  const std::vector<Image>* images = nullptr;  ///< from its fat binary; null or empty: not known
  int max_dynamic_shared = 48 << 10;
  int carveout = -1;
  const HostKernel* host_kernel = nullptr;
  GivenCost given_cost;
  std::vector<PointerParameter> pointers;            ///< set only if `given_cost.by_bytes`
  mutable std::atomic<int> runs{0};                  ///< 1: has code for the GPUs, -1: has none
  mutable std::atomic<std::uint64_t> uncomputed{0};  ///< launches without a host implementation

  void note_uncomputed() const noexcept { uncomputed.fetch_add(1, std::memory_order_relaxed); }
};

/** @brief A __device__, __constant__ or __managed__ variable. */
struct Variable {
  std::string name;
  std::size_t bytes = 0;
  bool managed = false;
  void** managed_pointer = nullptr;     ///< the program's variable that holds its address
  std::map<unsigned, void*> addresses;  ///< by GPU, allocated at the first use
};

/**
 * @brief Registers a fat binary. Static initializers call this before the runtime exists, so the
 *        registry has a lock of its own.
 */
void** register_module(const void* fat_binary = nullptr);
void unregister_module(void** module);
[[nodiscard]] bool is_module(void** module);
/**
 * @brief The kernel `name` of a module that was loaded at run time. Every name has a kernel: the
 *        module's machine code is not read. The kernel is its own host function.
 * @return null if `module` is not registered
 */
[[nodiscard]] Kernel* module_kernel(void** module, const char* name);
void register_kernel(void** module, const void* host_function, const char* name);
void register_variable(const void* host_variable, const char* name, std::size_t bytes,
                       void** managed_pointer);
/** @param host_function  a host function, or a kernel's handle, which points to the Kernel itself
 *  @return null if no such kernel was registered */
[[nodiscard]] Kernel* find_kernel(const void* host_function);
/** @brief The versions of the kernel's code that the current GPU runs. @return nothing if its fat
 * binary has no code for the GPU */
[[nodiscard]] std::optional<CodeVersions> code_versions(const Kernel& kernel);
[[nodiscard]] bool has_code(const Kernel& kernel);
[[nodiscard]] Variable* find_variable(const void* host_variable);
/** @brief Kernels whose launches computed nothing: readable names and numbers of launches. */
[[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> uncomputed_kernels();
/** @brief All managed variables. They get their memory at the program's first call. */
[[nodiscard]] std::vector<Variable*> managed_variables();

void add_host_kernel(const MillraceKernel& kernel);
/** @brief Sets the cost of all kernels whose names match, unless their host implementation gives a
 * cost. If several patterns match a kernel, the first one counts. */
void add_kernel_cost(const std::string& pattern, const GivenCost& cost);
/** @brief Reads costs from a file. A line has a time such as 12.5us, or the word "bytes", and a
 * pattern. A line that begins with `#` is a comment.
 *  @throws std::runtime_error that names the line and what is valid */
void read_kernel_times(const std::string& file);
/** @brief Copies the arguments of a launch, with the sizes that the host implementation gives, and
 * asks it for the launch's cost. */
void copy_arguments(KernelWork& work, void** arguments);

/**
 * @brief Sets the cost of a launch whose kernel has the cost "bytes".
 *
 * Each allocation that a pointer parameter points into counts once, from the lowest pointer to its
 * end. Pointers inside classes and pinned memory do not count. Called under the engine's lock.
 * @param arguments  null: not known
 */
void cost_bytes_of_pointers(KernelWork& work, void** arguments);

/** @brief The kernel's name as c++filt prints it. */
[[nodiscard]] std::string readable_name(const Kernel& kernel);
/** @brief Adds the accesses that the host implementation declares for the launch. @return false if
 * it declares none */
bool declared_accesses(const KernelWork& work, std::vector<Access>& found);

[[nodiscard]] const MillraceVirtualCuda& virtual_cuda_table();

}  // namespace millrace::virtual_cuda
