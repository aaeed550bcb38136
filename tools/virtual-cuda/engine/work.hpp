#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "abi/cuda_runtime_api.h"
#include "engine/access.hpp"
#include "millrace/device/profile.hpp"

namespace millrace::virtual_cuda {

struct Condition;
struct Graph;
struct Kernel;
struct Operation;

/** @brief Rows and layers in memory: byte (x, y, z) is at `base + x + y * pitch + z * slice`. */
struct Plane {
  std::byte* base = nullptr;
  std::size_t pitch = 0;
  std::size_t slice = 0;
};

/** @brief The direction of a copy. It selects the engine of a GPU that the copy occupies. */
enum class Direction { host_to_device, device_to_host, on_device, peer, host_to_host };

struct CopyWork {
  Plane to;
  Plane from;
  std::size_t width = 0;  ///< bytes of a row
  std::size_t height = 1;
  std::size_t depth = 1;
  Direction direction = Direction::on_device;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  std::shared_ptr<std::byte[]> staged;  ///< owns `from` if the source was copied at the call
  /// The program's parameters of a copy with an array, which it may read back from a graph node.
  std::shared_ptr<const cudaMemcpy3DParms> described = nullptr;

  [[nodiscard]] std::size_t bytes() const noexcept { return width * height * depth; }
};

struct FillWork {
  Plane to;
  std::uint32_t value = 0;
  unsigned element = 1;   ///< bytes of an element: 1, 2 or 4
  std::size_t width = 0;  ///< elements of a row
  std::size_t height = 1;
  std::size_t depth = 1;

  [[nodiscard]] std::size_t bytes() const noexcept { return width * element * height * depth; }
};

struct HostWork {
  cudaHostFn_t function = nullptr;
  void* data = nullptr;
  cudaStreamCallback_t callback = nullptr;  ///< instead of `function`
  cudaStream_t stream = nullptr;            ///< for `callback`
};

struct KernelWork {
  const Kernel* kernel = nullptr;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  std::vector<std::byte> arguments;  ///< copies of the arguments, each at its offset
  std::vector<std::size_t> offsets;  ///< empty unless the kernel has a host implementation
  bool cost_known = false;           ///< flops, bytes and fixed hold the launch's cost
  double flops = 0, bytes = 0;
  Nanoseconds fixed{0};                                 ///< time in addition to flops and bytes
  bool whole_machine = false;                           ///< takes turns with other such kernels
  std::shared_ptr<const std::vector<Access>> accesses;  ///< null: not known, or no checker
};

/** @brief An event and its generation: a handle may be reused while work refers to the event. */
struct EventRef {
  cudaEvent_t event = nullptr;
  std::uint64_t generation = 0;
};

struct RecordWork {
  EventRef event;
};
struct WaitWork {
  EventRef event;
};
struct EmptyWork {};
struct AllocWork {
  void* address = nullptr;
  std::size_t bytes = 0;
  cudaMemPoolProps properties{};
};
struct FreeWork {
  void* address = nullptr;
};
/** @brief A node of a graph that contains another graph. */
struct ChildWork {
  std::shared_ptr<Graph> graph;
};

/** @brief A node of a graph that runs the body that its condition selects, or none. */
struct ConditionalWork {
  std::shared_ptr<Condition> condition;
  cudaGraphConditionalNodeType type = cudaGraphCondTypeIf;
  std::vector<std::shared_ptr<Graph>> bodies;
  std::shared_ptr<cudaGraph_t[]> handles;  ///< handles of the bodies, for the program

  // Only for operations:
  std::weak_ptr<Operation> end;  ///< the operation that also waits for the body
  bool ran = false;              ///< the loop's body has run in this launch
};
/** @brief Sets conditions to their default values at the beginning of a launch. */
struct AssignWork {
  std::vector<std::shared_ptr<Condition>> conditions;
};

using Work = std::variant<EmptyWork, CopyWork, FillWork, HostWork, KernelWork, RecordWork, WaitWork,
                          AllocWork, FreeWork, ChildWork, ConditionalWork, AssignWork>;

/** @brief Moves the data of a copy. `copy` holds addresses of the program. */
void perform(const CopyWork& copy);
void perform(const FillWork& fill);
/** @brief Runs the kernel's host implementation. Without one, it only counts the launch.
 *  @param gpu  the GPU that the kernel runs on */
void perform(const KernelWork& kernel, unsigned gpu);
/** @brief Adds the operations of the body that the condition selects, after `operation`. */
void perform(const ConditionalWork& work, const std::shared_ptr<Operation>& operation);
void perform(const AssignWork& work);
/** @brief The launch's time, by its cost or by the file MILLRACE_VIRTUAL_COSTS; 0 if not known. */
[[nodiscard]] Nanoseconds time_of(const KernelWork& kernel, const DeviceProfile& profile);

}  // namespace millrace::virtual_cuda
