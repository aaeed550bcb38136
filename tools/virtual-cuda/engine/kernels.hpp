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

/** @brief What a table of costs says of a kernel. */
struct ToldCost {
  Nanoseconds time{0};    ///< 0: nothing
  bool by_bytes = false;  ///< the time of the bytes of its pointers

  [[nodiscard]] bool none() const noexcept { return time.count() == 0 && !by_bytes; }
};

struct Kernel {
  std::string name;
  std::string readable;  ///< as c++filt prints it; made when a pattern is first compared
  const void* host_function = nullptr;
  void** module = nullptr;
  const std::vector<Image>* images = nullptr;  ///< of its fat binary; null or empty: not known
  int max_dynamic_shared = 48 << 10;
  int carveout = -1;
  const HostKernel* host_kernel = nullptr;
  ToldCost told;
  std::vector<PointerParameter> pointers;            ///< known if the cost is that of their bytes
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
  std::map<unsigned, void*> addresses;  ///< by GPU, made at the first use
};

/**
 * @brief What a program's fat binaries registered. Static initializers call this before the runtime
 *        is made; it takes a lock of its own.
 */
void** register_module(const void* fat_binary = nullptr);
void unregister_module(void** module);
[[nodiscard]] bool is_module(void** module);
/**
 * @brief The kernel of this name in a module that was loaded at run time, whose machine code is not
 *        read: every name has one. It is its own host function. Null if there is no such module.
 */
[[nodiscard]] Kernel* module_kernel(void** module, const char* name);
void register_kernel(void** module, const void* host_function, const char* name);
void register_variable(const void* host_variable, const char* name, std::size_t bytes,
                       void** managed_pointer);
/** @param host_function  or the Kernel itself, which is what the handles of kernels point to
 *  @return null if no such kernel was registered */
[[nodiscard]] Kernel* find_kernel(const void* host_function);
/** @brief What the current GPU runs of the kernel. @return nothing if its fat binary has no code
 * for the GPU */
[[nodiscard]] std::optional<CodeVersions> code_versions(const Kernel& kernel);
[[nodiscard]] bool has_code(const Kernel& kernel);
[[nodiscard]] Variable* find_variable(const void* host_variable);
/** @brief The kernels that took their turn and did not compute: readable names and launches. */
[[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> uncomputed_kernels();
/** @brief Managed variables get their memory at the program's first call. */
[[nodiscard]] std::vector<Variable*> managed_variables();

void add_host_kernel(const MillraceKernel& kernel);
/** @brief Kernels whose names match have this cost, unless their host implementation says another.
 * A kernel that several patterns match has the cost of the first one. */
void add_kernel_cost(const std::string& pattern, const ToldCost& cost);
/** @brief Adds the lines of a file: a time such as 12.5us, or "bytes", and a pattern. `#` begins a
 * comment.
 *  @throws std::runtime_error that names the line and says what would be right */
void read_kernel_times(const std::string& file);
/** @brief Copies the arguments of a launch, whose sizes the host implementation knows, and asks
 * what it costs. */
void copy_arguments(KernelWork& work, void** arguments);

/**
 * @brief Sets the cost of a launch whose kernel is told to cost the bytes of its pointers.
 *
 * Each allocation that a pointer parameter lies in counts once, from the lowest pointer into it to
 * its end. Pointers inside of classes are not seen, and neither is pinned memory. Called under the
 * engine's lock.
 * @param arguments  null: not known
 */
void cost_bytes_of_pointers(KernelWork& work, void** arguments);

/** @brief The kernel's name as c++filt prints it. */
[[nodiscard]] std::string readable_name(const Kernel& kernel);
/** @brief Adds what the host implementation says that the launch accesses. @return false if it says
 * nothing */
bool declared_accesses(const KernelWork& work, std::vector<Access>& found);

[[nodiscard]] const MillraceVirtualCuda& virtual_cuda_table();

}  // namespace millrace::virtual_cuda
